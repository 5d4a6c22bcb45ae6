//! Taking another configuration while the daemon runs: at once, on trial, and back again.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use guideway_control::config::{self, Config, Source};
use guideway_control::neighbour::is_local;

use crate::api::model::{Applied, Confirmed, Plan};
use crate::api::view::stamp;
use crate::api::{ApplyAsk, Refusal, plan};
use crate::audit::Request;
use crate::core::{Refused, routed};
use crate::journal::{Grade, Kind};
use crate::names::Names;
use crate::shell::{Reload, Shell};
use crate::store::{LastGood, as_kept};
use crate::trial::Trial;

/// What comes back from a trial takes flows at once, by the verdicts of before; the API allows no longer trials.
const LONGEST_TRIAL: Duration = Duration::from_secs(24 * 3_600);

/// After a configuration that was to stay, so late at most: what somebody removed for longer may have been switched off since.
const GOES_BACK_WITHIN: Duration = Duration::from_secs(10 * 60);

/// When taking back a trial failed, it is tried again so much later.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A configuration to go back to.
struct Earlier {
    source: Source,
    config: Config,
    /// Whether it is the one before a trial.
    of_trial: bool,
}

impl Shell<'_> {
    /// Makes a configuration the one in force, all of it or nothing.
    fn take(&mut self, source: Source, config: Config) -> Result<(), Refused> {
        self.core.slack.note_text(source.text().len(), Instant::now());
        self.note_names(&config);
        self.core.reconfigure(config, Instant::now())?;
        self.follower.follow(self.core.backends());
        self.core.note_sources(|source| is_local(source).ok());
        self.core.note_routed(routed::is_on);
        self.taken += 1;
        self.source = source;
        let now = as_kept(SystemTime::now());
        self.core.about.taken_at = now;
        self.core.about.config.source = self.source.name().to_owned();
        self.core.about.config.taken_at = stamp(now);
        Ok(())
    }

    /// Has a restart find what is remembered of services that this configuration has under other names. Names of before count as
    /// long as a trial may go back to them; those of earlier changes are in no file any more once all is written.
    fn note_names(&mut self, config: &Config) {
        let mut names = if self.trial.is_some() { self.names.clone() } else { Names::default() };
        names.note(&config::renamed(&self.core.config, config));
        if names == self.names {
            return;
        }
        if self.trial.is_none() && self.names != Names::default() {
            self.save(Instant::now(), true);
        }
        self.names = names;
        if let Err(error) = self.store.write_names(&self.names) {
            let text = format!(
                "{error}; should the daemon be killed now, verdicts and overrides of renamed services are lost"
            );
            self.core.journal.note(Grade::Error, Kind::State, text);
        }
    }

    /// What comes back when this is refused, or taken back: a second trial goes back to where the first began.
    fn before(&self) -> Source {
        self.trial.as_ref().map_or_else(|| self.source.clone(), |trial| trial.before.clone())
    }

    /// Takes what the file says for good, whatever was on trial. Whether there was anything new.
    ///
    /// A file that was only touched ends no trial: its text is still what the trial goes back to.
    pub(crate) fn take_file(&mut self, source: Source, config: Config, by: Reload) -> Result<bool, Refused> {
        let before = self.before();
        let as_before = source.text() == before.text();
        if source.text() == self.source.text() || (by == Reload::File && as_before) {
            return Ok(false);
        }
        self.take(source, config)?;
        self.replace_trial("what the file says");
        if !as_before {
            self.remember(&before);
        }
        Ok(true)
    }

    /// Remembers the configuration in force for restarts, and the one before it for going back; why the files do not.
    fn remember(&mut self, before: &Source) -> Option<String> {
        let now = SystemTime::now();
        self.kept.take(LastGood::new(&self.source, self.core.about.taken_at), LastGood::new(before, now));
        self.kept.save(&self.store, &mut self.core, Instant::now())
    }

    /// Takes a configuration from a request.
    pub(crate) fn apply(&mut self, ask: ApplyAsk) -> Result<Applied, Refusal> {
        let name = self.options.config.display().to_string();
        let (source, config) = (Source::new(name, ask.text), *ask.config?);
        let plan = plan(&self.core, &config, Instant::now());
        let before = self.before();
        let for_good = ask.confirm_within.is_none();
        self.take(source, config).map_err(Refusal::refused)?;
        let trial_ended = self.replace_trial("another `apply`");
        let mut applied = Applied { trial_ended, ..Applied::new(plan) };
        if for_good {
            applied.not_kept = self.remember(&before);
            match self.write_file() {
                Ok(path) => applied.written = Some(path),
                Err(why) => applied.not_written = Some(why),
            }
        }
        if let Some(within) = ask.confirm_within {
            let by = stamp(SystemTime::now() + within);
            applied.confirm_by = Some(by.clone());
            self.begin_trial(Trial { until: Instant::now() + within, by, before });
        }
        let text = match &applied.confirm_by {
            Some(by) => format!("a configuration is on trial: it goes back at {by} unless it is confirmed"),
            None => "a configuration was applied".to_owned(),
        };
        self.core.journal.note(Grade::Info, Kind::Config, text);
        Ok(applied)
    }

    /// Keeps what is on trial.
    pub(crate) fn confirm(&mut self) -> Result<Confirmed, Refusal> {
        let Some(trial) = self.forget_trial() else {
            let ended = self.trial_ended.iter().map(|text| format!(": {text}"));
            return Err(Refusal::refused(format!(
                "nothing waits to be confirmed{}",
                ended.collect::<String>()
            )));
        };
        let not_kept = self.remember(&trial.before);
        self.core.journal.note(Grade::Info, Kind::Config, "the configuration on trial was confirmed");
        let written = self.write_file();
        Ok(Confirmed { not_written: written.as_ref().err().cloned(), written: written.ok(), not_kept })
    }

    /// Takes back what was on trial and not confirmed in time.
    pub(crate) fn end_trial(&mut self, now: Instant) {
        if self.trial.as_ref().is_some_and(|trial| trial.until <= now) {
            let result = self.rollback();
            if result.is_ok() {
                self.trial_ended =
                    Some("nobody confirmed the configuration on trial in time; it was taken back".to_owned());
            }
            let request = Request::new("daemon", "rollback of what nobody confirmed");
            self.note_request(request, result.as_ref().err().map(|refusal| refusal.detail.as_str()));
            let (grade, text) = match result {
                Ok(_) => (
                    Grade::Warning,
                    "nobody confirmed the configuration on trial; it was taken back".to_owned(),
                ),
                Err(refusal) => {
                    let why = refusal.detail;
                    (Grade::Error, format!("the configuration on trial could not be taken back: {why}"))
                }
            };
            self.core.journal.note(grade, Kind::Config, text);
            // It is still there only if it could not be taken back.
            if let Some(trial) = &mut self.trial {
                trial.until = now + TRY_AGAIN;
            }
        }
    }

    /// What [`rollback`](Self::rollback) would change.
    pub(crate) fn plan_rollback(&self) -> Result<Plan, Refusal> {
        let earlier = self.earlier()?;
        Ok(plan(&self.core, &earlier.config, Instant::now()))
    }

    /// Where going back leads to.
    fn earlier(&self) -> Result<Earlier, Refusal> {
        let (source, of_trial) = match (&self.trial, self.kept.before()) {
            (Some(trial), _) => (trial.before.clone(), true),
            (None, Some(before)) => (before.source(), false),
            (None, None) => return Err(Refusal::refused("there is no earlier configuration")),
        };
        let config = config::parse(&source).map_err(|problems| Refusal::bad_config(&problems))?;
        Ok(Earlier { source, config, of_trial })
    }

    /// Goes back: from a trial to what was before it, otherwise to the configuration before this one.
    pub(crate) fn rollback(&mut self) -> Result<Applied, Refusal> {
        let Earlier { source, config, of_trial } = self.earlier()?;
        let now = Instant::now();
        let plan = plan(&self.core, &config, now);
        self.core.board.recall(if of_trial { LONGEST_TRIAL } else { GOES_BACK_WITHIN }, now);
        self.take(source, config).map_err(Refusal::refused)?;
        self.forget_trial();
        let mut applied = Applied::new(plan);
        if !of_trial {
            self.kept.go_back(LastGood::new(&self.source, SystemTime::now()));
            applied.not_kept = self.kept.save(&self.store, &mut self.core, Instant::now());
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

/// Replaces a file whole or not at all, and leaves whose it is and who may read it as it was. A link stays a link.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut beside = path.clone().into_os_string();
    beside.push(".guideway-new");
    let beside = Path::new(&beside);
    let replaced = write_beside(beside, &path, text).and_then(|()| fs::rename(beside, &path));
    if replaced.is_err() {
        // What went wrong is told; a file that can't be removed either tells nothing more.
        drop(fs::remove_file(beside));
    }
    replaced
}

fn write_beside(beside: &Path, path: &Path, text: &str) -> io::Result<()> {
    // Nobody else reads it before its permissions are those of the file that it replaces.
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
    file.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(path) {
        chown(beside, Some(metadata.uid()), Some(metadata.gid()))?;
        file.set_permissions(metadata.permissions())?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_behind_its_link_and_stays_as_readable_as_it_was() -> io::Result<()> {
        let directory = std::env::temp_dir().join(format!("guideway-replace-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let (file, link) = (directory.join("real.toml"), directory.join("link.toml"));
        fs::write(&file, "old")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640))?;
        symlink("real.toml", &link)?;
        replace(&link, "new")?;
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        assert_eq!(fs::read_to_string(&file)?, "new");
        assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&directory)?.count(), 2, "nothing lies beside them");
        fs::remove_dir_all(&directory)
    }
}
