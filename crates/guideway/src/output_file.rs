//! Files that commands write: whole or not at all, and never over what the same command reads.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file being written: beside its name until it is whole. Dropped before [`OutputFile::keep`], it leaves no trace.
///
/// Pipes and devices have no "beside"; they are written directly.
pub(crate) struct OutputFile {
    file: File,
    /// Where it is, while it is not yet under its name.
    aside: Option<PathBuf>,
    target: PathBuf,
}

impl OutputFile {
    /// Begins to write `path`, which none of `inputs` may be, under whatever name.
    pub(crate) fn create(path: &Path, inputs: &[&Path]) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Err(Failure::usage(
                "standard output is for the report: name a file (./- for one called -)",
            ));
        }
        if let Some(input) = inputs.iter().find(|input| is_same(input, path)) {
            let what = format!("{} is the same file as {}, which is read", path.display(), input.display());
            return Err(Failure::usage(format!("{what}; write elsewhere")));
        }
        Self::open(path).map_err(|error| unwritable(path, &error))
    }

    /// Refuses now what can't be written later, before an hour of work is done for it. Leaves no trace; what is no plain file is
    /// not touched, for opening a pipe means something to its other end.
    pub(crate) fn probe(path: &Path) -> Result<(), Failure> {
        match fs::metadata(path) {
            Ok(existing) if existing.is_dir() => {
                Err(unwritable(path, &io::Error::from(io::ErrorKind::IsADirectory)))
            }
            Ok(existing) if !existing.is_file() => Ok(()),
            _ => Self::create(path, &[]).map(drop),
        }
    }

    fn open(path: &Path) -> io::Result<Self> {
        // Through a link, the file that it names is replaced, not the link.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|existing| !existing.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Self { file, aside: None, target });
        }
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(io::ErrorKind::IsADirectory)?);
        name.push(format!(".{}.part", std::process::id()));
        let aside = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&aside)?;
        Ok(Self { file, aside: Some(aside), target })
    }

    /// A handle to write by.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name: all that was written is there from now on.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        if let Some(aside) = &self.aside {
            fs::rename(aside, &self.target)?;
            self.aside = None;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            // What can't be removed now is a hidden file with a telling name.
            let _ = fs::remove_file(aside);
        }
    }
}

/// The failure of an output under its name.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Refuses a command line on which standard input is to be several files.
pub(crate) fn one_standard_input<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let dashes = inputs.into_iter().filter(|input| *input == Path::new("-")).count();
    if dashes > 1 {
        return Err(Failure::usage("only one input can be - (standard input); name a file for the other"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A directory of its own, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("guideway-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let scratch = Scratch::new("whole");
        let path = scratch.0.join("out");
        fs::write(&path, "old").unwrap();
        let begun = OutputFile::create(&path, &[]).unwrap();
        begun.handle().unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(begun);
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "nothing is left beside it");
        let begun = OutputFile::create(&path, &[]).unwrap();
        begun.handle().unwrap().write_all(b"new").unwrap();
        begun.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn what_can_not_be_written_is_known_beforehand_and_the_question_leaves_no_trace() {
        let scratch = Scratch::new("probe");
        let path = scratch.0.join("out");
        OutputFile::probe(&path).unwrap();
        fs::write(&path, "old").unwrap();
        OutputFile::probe(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "nothing is left beside it");
        assert!(OutputFile::probe(&scratch.0).is_err(), "a directory");
        assert!(OutputFile::probe(&scratch.0.join("nowhere/out")).is_err(), "a directory that isn't there");
        OutputFile::probe(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn an_input_is_recognised_under_another_name() {
        let scratch = Scratch::new("input");
        let (input, link) = (scratch.0.join("in"), scratch.0.join("link"));
        fs::write(&input, "precious").unwrap();
        fs::hard_link(&input, &link).unwrap();
        assert!(matches!(OutputFile::create(&link, &[&input]), Err(Failure::Usage(_))));
        assert_eq!(fs::read(&input).unwrap(), b"precious");
    }

    #[test]
    fn standard_input_is_one_input() {
        let dash = Path::new("-");
        assert!(one_standard_input([dash, Path::new("a")]).is_ok());
        assert!(one_standard_input([dash, dash]).is_err());
    }
}
