//! The configuration file, read again while the loop goes on.

use guideway_control::config::{Config, Source};
use tokio::task::JoinHandle;

use super::Shell;
use crate::api::model::Reloaded;
use crate::api::{Refusal, Reply};
use crate::audit::Request;
use crate::error::RunError;
use crate::journal::{Grade, Kind};
use crate::start;

/// Who wants the configuration read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    File,
    Signal,
    Api,
}

impl Reload {
    const fn why(self) -> &'static str {
        match self {
            Self::File => "the file was written",
            Self::Signal => "SIGHUP",
            Self::Api => "the API asked",
        }
    }

    const fn who(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Signal => "SIGHUP",
            Self::Api => "API",
        }
    }
}

/// The configuration file, while another thread reads and checks it.
pub(super) struct Reading {
    by: Reload,
    /// Who waits for what comes of it.
    waits: Option<(Reply<Reloaded>, Request)>,
    /// Configurations that had been taken when it began.
    taken: u64,
    pub(super) file: JoinHandle<Result<(Source, Config), RunError>>,
}

impl Shell<'_> {
    /// Has the configuration file read again, on a thread of its own: a large one takes a while, and verdicts do not wait.
    pub(super) fn read_file(&mut self, by: Reload, waits: Option<(Reply<Reloaded>, Request)>) {
        self.manager.reloading();
        let path = self.options.config.clone();
        let file = tokio::task::spawn_blocking(move || start::read(&path));
        self.readings.push_back(Reading { by, waits, taken: self.taken, file });
    }

    /// Takes what came of reading the file.
    pub(super) fn end_reading(&mut self, read: Result<(Source, Config), RunError>) {
        let Some(Reading { by, waits, taken, .. }) = self.readings.pop_front() else { return };
        if taken != self.taken {
            // Another configuration was taken meanwhile, and perhaps written there: what was read may be older.
            return self.read_file(by, waits);
        }
        let who = waits.as_ref().map_or(by.who(), |(_, request)| &request.who).to_owned();
        self.core.journal.act_for(Some(&who));
        let result = self.reload(by, read);
        match waits {
            Some((tell, request)) => {
                self.followed(request, result.map(|changed| Reloaded { changed }), tell);
            }
            // The daemon writes the file as well: what changes nothing is nobody's change.
            None if by == Reload::Signal || result != Ok(false) => {
                let refused = result.err().map(|refusal| refusal.detail);
                self.note_request(Request::new(by.who(), "reload"), refused.as_deref());
            }
            None => {}
        }
        self.core.journal.act_for(None);
    }

    /// Takes the file that was read; a bad one changes nothing. Whether there was anything new.
    fn reload(&mut self, by: Reload, read: Result<(Source, Config), RunError>) -> Result<bool, Refusal> {
        let why = by.why();
        let taken = read.and_then(|(source, config)| Ok(self.take_file(source, config, by)?));
        let result = taken.map_err(|error| match error {
            RunError::Config(problems) => Refusal::bad_config(&problems),
            error => Refusal::refused(error),
        });
        let (grade, text) = match &result {
            Ok(false) => (Grade::Info, format!("{why}: {} is as it was", self.source.name())),
            Ok(true) => (Grade::Info, format!("{why}: {} is in force", self.source.name())),
            Err(refusal) => {
                (Grade::Error, format!("{why}: {}\nthe configuration stays as it was", refusal.detail))
            }
        };
        self.core.journal.note(grade, Kind::Config, text);
        let config = &mut self.core.about.config;
        config.last_reload_successful = result.is_ok();
        config.last_reload_error = result.as_ref().err().map(|refusal| refusal.detail.clone());
        self.manager.ready();
        result
    }
}
