//! What happened lately, for people: kept in memory, and told to the log as it happens.

use std::collections::VecDeque;
use std::time::SystemTime;

/// How many events are kept.
const KEPT: usize = 2_048;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// When.
    pub(crate) at: SystemTime,
    /// How grave it is.
    pub(crate) grade: Grade,
    /// What it is about.
    pub(crate) kind: Kind,
    /// The service that it is about.
    pub(crate) service: Option<String>,
    /// The backend that it is about.
    pub(crate) backend: Option<String>,
    /// Who caused it, in the audit log's words.
    pub(crate) by: Option<String>,
    /// What happened.
    pub(crate) text: String,
}

/// How grave an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Grade {
    /// As it should be.
    Info,
    /// Somebody should look.
    Warning,
    /// Something does not work.
    Error,
}

impl Grade {
    /// A stable name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The daemon's own life.
    Daemon,
    /// The configuration was changed, or was not.
    Config,
    /// A verdict changed.
    Health,
    /// A service's table or backends changed in the forwarder, or did not.
    Commit,
    /// A drain.
    Drain,
    /// Where frames go.
    NextHop,
    /// What an operator asked for.
    Operator,
    /// Files that outlive the process.
    State,
    /// What somebody else changed in the forwarder.
    Drift,
}

impl Kind {
    /// A stable name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Config => "config",
            Self::Health => "health",
            Self::Commit => "commit",
            Self::Drain => "drain",
            Self::NextHop => "next-hop",
            Self::Operator => "operator",
            Self::State => "state",
            Self::Drift => "drift",
        }
    }
}

/// What happened lately.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    events: VecDeque<Event>,
    told: u64,
    /// On whose behalf the daemon acts now.
    by: Option<String>,
}

impl Journal {
    /// What is noted from now on was caused by them, until nobody is said to be.
    pub(crate) fn act_for(&mut self, who: Option<&str>) {
        self.by = who.map(str::to_owned);
    }

    /// Notes an event of no service.
    pub(crate) fn note(&mut self, grade: Grade, kind: Kind, text: impl Into<String>) {
        self.note_of(grade, kind, None, None, text);
    }

    /// Notes an event.
    pub(crate) fn note_of(
        &mut self,
        grade: Grade,
        kind: Kind,
        service: Option<&str>,
        backend: Option<&str>,
        text: impl Into<String>,
    ) {
        let text = text.into();
        let about = kind.as_str();
        let by = self.by.clone();
        match grade {
            Grade::Info => tracing::info!(about, service, backend, by, "{text}"),
            Grade::Warning => tracing::warn!(about, service, backend, by, "{text}"),
            Grade::Error => tracing::error!(about, service, backend, by, "{text}"),
        }
        self.told += 1;
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            number: self.told,
            at: SystemTime::now(),
            grade,
            kind,
            service: service.map(str::to_owned),
            backend: backend.map(str::to_owned),
            by,
            text,
        });
    }

    /// What happened last.
    pub(crate) fn last(&self) -> Option<&Event> {
        self.events.back()
    }

    /// Those after a number, oldest first.
    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.number > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_make_room() {
        let mut journal = Journal::default();
        for n in 0..KEPT + 3 {
            journal.note(Grade::Info, Kind::Daemon, n.to_string());
        }
        let numbers: Vec<u64> = journal.since(0).map(|event| event.number).collect();
        assert_eq!((numbers[0], numbers.len()), (4, KEPT));
        assert_eq!(journal.since(KEPT as u64 + 1).count(), 2);
    }

    #[test]
    fn events_name_those_who_cause_them_and_nobody_else() {
        let mut journal = Journal::default();
        journal.act_for(Some("SIGHUP"));
        journal.note(Grade::Info, Kind::Config, "caused");
        journal.act_for(None);
        journal.note(Grade::Info, Kind::Drift, "found");
        let by: Vec<Option<&str>> = journal.since(0).map(|event| event.by.as_deref()).collect();
        assert_eq!(by, [Some("SIGHUP"), None]);
    }
}
