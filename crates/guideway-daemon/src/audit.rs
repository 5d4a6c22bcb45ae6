//! Who changed what: the last entries in memory, for questions, and all of them in a file that is rotated.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use guideway_control::state_file::read_regular;

use crate::api::model::AuditEntry;
use crate::api::view::stamp;

/// Entries in memory.
const KEPT: usize = 1_000;

/// The longest text in an entry, characters.
const TEXT: usize = 300;

/// A file this long, bytes, makes room for a new one; so many older ones are kept.
const FILE_BYTES: u64 = 1 << 20;
const OLDER_FILES: usize = 4;

/// A change that somebody asks for, before anything came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) who: String,
    pub(crate) what: String,
    pub(crate) said: Option<String>,
}

impl Request {
    /// One that was not made over the API.
    pub(crate) fn new(who: &str, what: &str) -> Self {
        Self { who: who.to_owned(), what: what.to_owned(), said: None }
    }
}

/// The last entries, and those that are still to be written.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    recent: VecDeque<AuditEntry>,
    unwritten: Vec<AuditEntry>,
    /// How many the file lacks, as it could not be written.
    pub(crate) lost: u64,
}

impl Audit {
    /// Goes on from what an earlier daemon wrote.
    pub(crate) fn restore(entries: Vec<AuditEntry>) -> Self {
        let surplus = entries.len().saturating_sub(KEPT);
        Self { recent: entries.into_iter().skip(surplus).collect(), ..Self::default() }
    }

    /// Notes what came of a request, and tells the log.
    pub(crate) fn note(&mut self, request: Request, refused: Option<&str>, revision: String) {
        let Request { who, what, said } = request;
        let entry = AuditEntry {
            at: stamp(SystemTime::now()),
            who: short(&who),
            what: short(&what),
            said: said.as_deref().map(short),
            done: refused.is_none(),
            refused: refused.map(short),
            revision,
        };
        tracing::info!(
            about = "audit",
            who = entry.who,
            said = entry.said,
            refused = entry.refused,
            revision = entry.revision,
            "{}",
            entry.what
        );
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(entry.clone());
        self.unwritten.push(entry);
    }

    /// The newest so many, oldest first.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = &AuditEntry> {
        self.recent.iter().skip(self.recent.len().saturating_sub(count))
    }

    /// What is to be written; it counts as written then.
    pub(crate) fn take_unwritten(&mut self) -> Vec<AuditEntry> {
        std::mem::take(&mut self.unwritten)
    }
}

/// The first line of a text, and not too much of it.
fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(TEXT).collect();
    if short.len() < text.trim_end().len() { short + "…" } else { short }
}

/// The file: one entry a line, as JSON.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
}

impl AuditFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What was written lately, oldest first. A line that is no entry, as one that was cut by a loss of power, is passed over.
    pub(crate) fn recent(&self) -> Vec<AuditEntry> {
        let files = [self.older(1), self.path.clone()].map(|path| read_regular(&path).unwrap_or_default());
        let lines = files.iter().flat_map(|bytes| bytes.split(|&byte| byte == b'\n'));
        // A byte that is no text costs its own place and not the whole file.
        lines.filter_map(|line| serde_json::from_str(&String::from_utf8_lossy(line)).ok()).collect()
    }

    /// Adds entries; they are on the disk when this returns.
    pub(crate) fn append(&self, entries: &[AuditEntry]) -> io::Result<()> {
        let mut file = self.open()?;
        let mut text = Vec::new();
        if file.metadata()?.len() > FILE_BYTES {
            self.rotate()?;
            file = self.open()?;
        } else if !ends_a_line(&mut file)? {
            text.push(b'\n');
        }
        for entry in entries {
            serde_json::to_writer(&mut text, entry)?;
            text.push(b'\n');
        }
        file.write_all(&text)?;
        file.sync_data()
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(&self.path)
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..OLDER_FILES).rev() {
            match fs::rename(self.older(number), self.older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.older(1))
    }

    /// `audit.jsonl.1` beside `audit.jsonl`, and so on; the higher the older.
    fn older(&self, number: usize) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a file is empty or ends with a line's end: a kill in the middle of a write leaves half a line.
fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(test: &str) -> (PathBuf, AuditFile) {
        let directory = std::env::temp_dir().join(format!("guideway-audit-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let file = AuditFile::new(directory.join("audit.jsonl"));
        (directory, file)
    }

    fn noted(what: &str) -> Vec<AuditEntry> {
        let mut audit = Audit::default();
        audit.note(Request::new("SIGHUP", what), None, "r-1".into());
        audit.take_unwritten()
    }

    #[test]
    fn what_was_written_is_known_again_and_half_a_line_is_passed_over() {
        let (directory, file) = file("again");
        file.append(&noted("first")).unwrap();
        OpenOptions::new().append(true).open(file.path()).unwrap().write_all(b"{\"at\":\"20").unwrap();
        file.append(&noted("second")).unwrap();
        let what: Vec<String> = file.recent().into_iter().map(|entry| entry.what).collect();
        assert_eq!(what, ["first", "second"]);
        let audit = Audit::restore(file.recent());
        assert_eq!(audit.newest(1).map(|entry| entry.what.as_str()).collect::<Vec<_>>(), ["second"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_byte_that_is_no_text_costs_one_line_at_most() {
        let (directory, file) = file("bytes");
        file.append(&noted("first")).unwrap();
        OpenOptions::new().append(true).open(file.path()).unwrap().write_all(b"\xff\n").unwrap();
        file.append(&noted("second")).unwrap();
        let what: Vec<String> = file.recent().into_iter().map(|entry| entry.what).collect();
        assert_eq!(what, ["first", "second"]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn files_are_rotated_and_their_number_is_bounded() {
        let (directory, file) = file("rotated");
        let entries: Vec<AuditEntry> = noted(&"x".repeat(TEXT)).into_iter().cycle().take(3_000).collect();
        for round in 0..OLDER_FILES + 3 {
            file.append(&entries).unwrap();
            file.append(&noted(&round.to_string())).unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), OLDER_FILES + 1);
        assert!(file.recent().iter().any(|entry| entry.what == (OLDER_FILES + 2).to_string()));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn entries_are_bounded_in_number_and_length() {
        let mut audit = Audit::default();
        for n in 0..KEPT + 5 {
            let said = Some(format!("{n}{}\nmore", "y".repeat(1_000)));
            let request = Request { said, ..Request::new("uid 0, pid 1", "PUT /v1/x") };
            audit.note(request, Some("no"), "r".into());
        }
        assert_eq!(audit.newest(usize::MAX).count(), KEPT);
        let last = audit.newest(1).next().unwrap();
        assert_eq!(last.said.as_ref().unwrap().chars().count(), TEXT + 1);
        assert_eq!((last.done, last.refused.as_deref()), (false, Some("no")));
        assert_eq!((audit.take_unwritten().len(), audit.take_unwritten().len()), (KEPT + 5, 0));
    }
}
