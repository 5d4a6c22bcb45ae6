//! The configurations that a restart and a rollback need. What is here holds; the files may lag behind, and are written
//! again until they do not.

use std::time::{Duration, Instant};

use guideway_control::state_file::StateError;

use crate::core::Core;
use crate::store::{History, LastGood, Store};

/// How many configurations of before are kept.
const MOST: usize = 10;

/// A file that could not be written is tried again so much later.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The configuration in force and those before it.
#[derive(Debug)]
pub(crate) struct Kept {
    last: LastGood,
    history: History,
    unsaved: Unsaved,
    rests_until: Option<Instant>,
}

/// Which files are to be written.
#[derive(Debug, Clone, Copy)]
struct Unsaved {
    last: bool,
    history: bool,
}

impl Kept {
    /// What an earlier daemon left, with the configuration that this one begins with; whether that is new to the file.
    pub(crate) fn new(last: LastGood, is_new: bool, history: History) -> Self {
        let unsaved = Unsaved { last: is_new, history: false };
        Self { last, history, unsaved, rests_until: None }
    }

    /// Another configuration is in force, and going back leads to the one before it.
    pub(crate) fn take(&mut self, last: LastGood, before: LastGood) {
        self.history.before.push(before);
        let surplus = self.history.before.len().saturating_sub(MOST);
        self.history.before.drain(..surplus);
        self.force(last);
    }

    /// The configuration of before is in force again, and is not gone back to any more.
    pub(crate) fn go_back(&mut self, last: LastGood) {
        self.history.before.pop();
        self.force(last);
    }

    fn force(&mut self, last: LastGood) {
        self.last = last;
        self.unsaved = Unsaved { last: true, history: true };
        self.rests_until = None;
    }

    /// Where going back leads to.
    pub(crate) fn before(&self) -> Option<&LastGood> {
        self.history.before.last()
    }

    /// Writes what is to be written, unless that failed a moment ago; why a restart would not find it, if it would not.
    pub(crate) fn save(&mut self, store: &Store, core: &mut Core, now: Instant) -> Option<String> {
        if self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        let mut why = Vec::new();
        let mut note = |file, written: Result<(), StateError>, then: &str| {
            let failed = written.err().map(|error| format!("{error}; {then}"));
            why.extend(failed.clone());
            core.note_written(file, failed.clone());
            failed.is_some()
        };
        if self.unsaved.last {
            let then = "after a restart the configuration before this one may be used";
            self.unsaved.last = note("config.json", store.write_config(&self.last), then);
        }
        if self.unsaved.history {
            let then = "after a restart a rollback may lead elsewhere";
            self.unsaved.history = note("history.json", store.write_history(&self.history), then);
        }
        self.rests_until = (!why.is_empty()).then(|| now + TRY_AGAIN);
        (!why.is_empty()).then(|| why.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use guideway_control::config::Source;

    use super::*;
    use crate::in_process;
    use crate::patience::Patience;

    #[test]
    fn what_cannot_be_written_holds_in_memory_is_a_fault_and_is_written_later() {
        let directory = std::env::temp_dir().join(format!("guideway-kept-{}", std::process::id()));
        let mut store = Store::open(&directory, &mut Patience::new()).unwrap();
        let now = Instant::now();
        let mut core = in_process::core(in_process::CONFIG, now).unwrap();
        let text = |text: &str| LastGood::new(&Source::new("file", text), SystemTime::now());
        let mut kept = Kept::new(text("first"), true, History::default());
        assert_eq!(kept.save(&store, &mut core, now), None);
        // Where a file beside would be made there is a directory, which stops root as well.
        for file in ["config.json.new", "history.json.new"] {
            fs::create_dir(directory.join(file)).unwrap();
        }
        for (then, before) in [("second", "first"), ("third", "second")] {
            kept.take(text(then), text(before));
            let why = kept.save(&store, &mut core, now).unwrap();
            assert!(why.contains("config.json") && why.contains("history.json"), "{why}");
        }
        assert_eq!(core.unwritten.keys().copied().collect::<Vec<_>>(), ["config.json", "history.json"]);
        assert_eq!(kept.before().unwrap().text, "second");
        for file in ["config.json.new", "history.json.new"] {
            fs::remove_dir(directory.join(file)).unwrap();
        }
        kept.save(&store, &mut core, now);
        assert!(!core.unwritten.is_empty(), "it rests");
        assert_eq!(kept.save(&store, &mut core, now + TRY_AGAIN), None);
        assert!(core.unwritten.is_empty());
        assert_eq!(store.config().unwrap().unwrap().text, "third");
        assert_eq!(store.history().unwrap().before.len(), 2);
        kept.go_back(text("second"));
        assert_eq!(kept.before().unwrap().text, "first");
        fs::remove_dir_all(directory).unwrap();
    }
}
