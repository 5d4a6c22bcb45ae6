//! Taking another configuration while the daemon runs: at once, on trial, and back again.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime};

use guideway_control::config::{self, Config, Source};

use crate::api::model::Applied;
use crate::api::view::stamp;
use crate::api::{ApplyAsk, plan};
use crate::audit::Request;
use crate::core::Refused;
use crate::journal::{Grade, Kind};
use crate::shell::{Shell, Trial};
use crate::store::LastGood;

/// How many configurations of before are kept.
const KEPT: usize = 10;

impl Shell<'_> {
    /// Makes a configuration the one in force, all of it or nothing. For good, it is remembered for restarts, and the
    /// one before it for going back.
    pub(crate) fn take(&mut self, source: Source, config: Config, for_good: bool) -> Result<(), Refused> {
        self.core.reconfigure(config, Instant::now())?;
        self.follower.follow(self.core.backends());
        let before = std::mem::replace(&mut self.source, source);
        let now = SystemTime::now();
        self.core.about.taken_at = now;
        self.core.about.config.source = self.source.name().to_owned();
        self.core.about.config.taken_at = stamp(now);
        if for_good {
            self.remember(&before);
        }
        Ok(())
    }

    /// Remembers the configuration in force for restarts, and the one before it for going back.
    fn remember(&mut self, before: &Source) {
        let now = SystemTime::now();
        let written = self.store.write_config(&LastGood::new(&self.source, now)).and_then(|()| {
            let mut history = self.store.history()?;
            history.before.push(LastGood::new(before, now));
            let surplus = history.before.len().saturating_sub(KEPT);
            history.before.drain(..surplus);
            self.store.write_history(&history)
        });
        if let Err(error) = written {
            let text = format!("{error}; after a restart the configuration before this one may be used");
            self.core.journal.note(Grade::Error, Kind::State, text);
        }
    }

    /// Takes a configuration from a request.
    pub(crate) fn apply(&mut self, ask: ApplyAsk) -> Result<Applied, String> {
        let name = self.options.config.display().to_string();
        let source = Source::new(name, ask.text);
        let config = config::parse(&source).map_err(|problems| problems.to_string())?;
        let plan = plan(&self.core, &config, Instant::now());
        // A second trial goes back to where the first began.
        let before = self.trial.take().map_or_else(|| self.source.clone(), |trial| trial.before);
        let for_good = ask.confirm_within.is_none();
        let taken = self.take(source, config, false);
        if let Err(refused) = taken {
            return Err(refused.to_string());
        }
        let mut applied = Applied { plan, confirm_by: None, written: None, not_written: None };
        if for_good {
            self.remember(&before);
            self.core.about.config.confirm_by = None;
            match self.write_file() {
                Ok(path) => applied.written = Some(path),
                Err(why) => applied.not_written = Some(why),
            }
        }
        if let Some(within) = ask.confirm_within {
            let by = stamp(SystemTime::now() + within);
            applied.confirm_by = Some(by.clone());
            self.core.about.config.confirm_by = Some(by);
            self.trial = Some(Trial { until: Instant::now() + within, before });
        }
        let text = match &applied.confirm_by {
            Some(by) => format!("a configuration is on trial: it goes back at {by} unless it is confirmed"),
            None => "a configuration was applied".to_owned(),
        };
        self.core.journal.note(Grade::Info, Kind::Config, text);
        Ok(applied)
    }

    /// Keeps what is on trial; where it was written.
    pub(crate) fn confirm(&mut self) -> Result<Option<String>, String> {
        let trial = self.trial.take().ok_or("nothing waits to be confirmed")?;
        self.core.about.config.confirm_by = None;
        self.remember(&trial.before);
        self.core.journal.note(Grade::Info, Kind::Config, "the configuration on trial was confirmed");
        self.write_file().map(Some)
    }

    /// Takes back what was on trial and not confirmed in time.
    pub(crate) fn end_trial(&mut self, now: Instant) {
        if self.trial.as_ref().is_some_and(|trial| trial.until <= now) {
            let result = self.rollback();
            let request = Request::new("daemon", "rollback of what nobody confirmed");
            self.note_request(request, result.as_ref().err().map(String::as_str));
            let (grade, text) = match result {
                Ok(_) => (
                    Grade::Warning,
                    "nobody confirmed the configuration on trial; it was taken back".to_owned(),
                ),
                Err(error) => {
                    (Grade::Error, format!("the configuration on trial could not be taken back: {error}"))
                }
            };
            self.core.journal.note(grade, Kind::Config, text);
        }
    }

    /// Goes back: from a trial to what was before it, otherwise to the configuration before this one.
    pub(crate) fn rollback(&mut self) -> Result<Applied, String> {
        let on_trial = self.trial.take();
        self.core.about.config.confirm_by = None;
        let mut history = self.store.history().map_err(|error| error.to_string())?;
        let source = match &on_trial {
            Some(trial) => trial.before.clone(),
            None => history.before.pop().ok_or("there is no configuration of before")?.source(),
        };
        let config = config::parse(&source).map_err(|problems| problems.to_string())?;
        let plan = plan(&self.core, &config, Instant::now());
        self.take(source, config, false).map_err(|refused| refused.to_string())?;
        let mut applied = Applied { plan, confirm_by: None, written: None, not_written: None };
        if on_trial.is_none() {
            let last = LastGood::new(&self.source, SystemTime::now());
            let kept = self.store.write_config(&last).and_then(|()| self.store.write_history(&history));
            if let Err(error) = kept {
                self.core.journal.note(Grade::Error, Kind::State, error.to_string());
            }
            match self.write_file() {
                Ok(path) => applied.written = Some(path),
                Err(why) => applied.not_written = Some(why),
            }
            self.core.journal.note(Grade::Info, Kind::Config, "went back to the configuration before");
        }
        Ok(applied)
    }

    /// Writes the configuration in force where the next start, and the next reload, read it.
    fn write_file(&self) -> Result<String, String> {
        let path = &self.options.config;
        replace(path, self.source.text()).map(|()| path.display().to_string()).map_err(|error| {
            format!("cannot write {}: {error}; the next reload brings the old file back", path.display())
        })
    }
}

/// Replaces a file whole or not at all, and leaves who may read it as it was.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".guideway-new");
    fs::write(&beside, text)?;
    if let Ok(metadata) = fs::metadata(path) {
        fs::set_permissions(&beside, metadata.permissions())?;
    }
    fs::File::open(&beside)?.sync_all()?;
    fs::rename(&beside, path)
}
