//! The end of a configuration's trial by anything but its deadline, a confirmation or a rollback: it is told wherever an
//! operator may look, also when the daemon that began it is gone.

use std::time::Instant;

use guideway_control::config::Source;
use guideway_control::state_file::State;
use serde::{Deserialize, Serialize};

use crate::audit::Request;
use crate::core::Core;
use crate::journal::{Grade, Kind};
use crate::shell::Shell;
use crate::store::Store;

/// A configuration that is taken back if nobody confirms it.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) until: Instant,
    /// The same for people.
    pub(crate) by: String,
    /// What comes back.
    pub(crate) before: Source,
}

/// What the next daemon has to know of a trial: that there was one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OnTrial {
    version: u32,
    /// When it would have been taken back.
    confirm_by: Option<String>,
}

impl State for OnTrial {
    const VERSION: u32 = 1;
}

impl OnTrial {
    pub(crate) fn new(confirm_by: Option<&str>) -> Self {
        Self { version: Self::VERSION, confirm_by: confirm_by.map(str::to_owned) }
    }
}

const FILE: &str = "trial.json";

impl Shell<'_> {
    /// Begins a trial; the next daemon learns of it as well.
    pub(crate) fn begin_trial(&mut self, trial: Trial) {
        self.trial_ended = None;
        self.core.about.config.confirm_by = Some(trial.by.clone());
        write(&self.store, &mut self.core, Some(&trial.by));
        self.trial = Some(trial);
    }

    /// No trial is under way any more, whatever the reason; the one that was.
    pub(crate) fn forget_trial(&mut self) -> Option<Trial> {
        let trial = self.trial.take();
        if trial.is_some() {
            self.core.about.config.confirm_by = None;
            write(&self.store, &mut self.core, None);
        }
        trial
    }

    /// Ends a trial, if there is one, since another configuration took its place; what is to be told of it.
    pub(crate) fn replace_trial(&mut self, by_what: &str) -> Option<String> {
        let Trial { by, .. } = self.forget_trial()?;
        let text =
            format!("the configuration on trial until {by} was not confirmed: {by_what} took its place");
        tell_end(&mut self.core, &text);
        self.trial_ended = Some(text.clone());
        Some(text)
    }

    /// Tells that a trial ends with this daemon.
    pub(crate) fn leave_trial(&mut self) {
        if let Some(Trial { by, .. }) = &self.trial {
            let text = format!(
                "the configuration on trial until {by} ends with this daemon: the next one takes what the file says"
            );
            self.core.journal.note(Grade::Warning, Kind::Config, text);
        }
    }
}

/// What a daemon that is gone had on trial, and did not take back or keep: it is told, once. What is in force is what the
/// file says.
pub(crate) fn ended_with_daemon(store: &mut Store, core: &mut Core) -> Option<String> {
    let trial = store.trial().ok().flatten();
    for text in store.take_set_aside() {
        core.journal.note(Grade::Error, Kind::State, text.clone());
        core.about.faults.push(text);
    }
    let by = trial?.confirm_by?;
    let text = format!(
        "the configuration on trial until {by} was not confirmed: the daemon was started anew, and took what the file says"
    );
    tell_end(core, &text);
    write(store, core, None);
    Some(text)
}

fn tell_end(core: &mut Core, text: &str) {
    core.journal.note(Grade::Warning, Kind::Config, text);
    let revision = core.revision();
    core.audit.note(Request::new("daemon", text), None, revision);
}

fn write(store: &Store, core: &mut Core, confirm_by: Option<&str>) {
    let error = store.write_trial(&OnTrial::new(confirm_by)).err();
    let error = error.map(|error| format!("{error}; a restart may not tell that a trial ended with it"));
    core.note_written(FILE, error);
}
