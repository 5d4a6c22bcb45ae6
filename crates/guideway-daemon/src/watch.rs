//! Noticing that the configuration file was written.
//!
//! Its directory is watched, since editors write another file and rename it. What arrives within [`REST`] is one change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a file is left to be written.
const REST: Duration = Duration::from_millis(200);

/// Watches one file.
#[derive(Debug)]
pub(crate) struct FileWatch {
    written: mpsc::UnboundedReceiver<()>,
    due: Option<Instant>,
    _watcher: RecommendedWatcher,
}

impl FileWatch {
    /// Watches the file; it need not be there yet, but its directory must.
    pub(crate) fn new(file: &Path) -> notify::Result<Self> {
        let name = file.file_name().map(PathBuf::from);
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let (tell, written) = mpsc::unbounded_channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            let reads = matches!(event.kind, EventKind::Access(_));
            let ours = event.paths.iter().any(|path| path.file_name().map(PathBuf::from) == name);
            // Nobody listens any more when the daemon ends.
            if ours && !reads && tell.send(()).is_err() {}
        })?;
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
        Ok(Self { written, due: None, _watcher: watcher })
    }

    /// Waits until the file was written and left alone. It can be dropped while it waits, and called again.
    pub(crate) async fn changed(&mut self) {
        loop {
            let rested = async {
                match self.due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                told = self.written.recv() => match told {
                    Some(()) => self.due = Some(Instant::now() + REST),
                    None => std::future::pending().await,
                },
                () = rested => {
                    self.due = None;
                    return;
                }
            }
        }
    }
}
