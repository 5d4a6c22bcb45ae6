//! Running the built binary as a user does: arguments and standard input in, text and exit code out.
#![allow(dead_code, reason = "each test file needs a part of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `guideway` with these arguments and this standard input.
pub(crate) fn guideway_with_input(args: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_guideway"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that has its backends from flags may be gone before it is told any.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().expect("no signal ended it"),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs `guideway` with the words of `line`.
pub(crate) fn guideway(line: &str) -> Run {
    guideway_with_input(&line.split_whitespace().collect::<Vec<_>>(), "")
}

/// The JSON that `line` prints.
pub(crate) fn json(line: &str) -> serde_json::Value {
    let run = guideway(line);
    assert_eq!(run.code, 0, "{line}: {}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

/// Asserts that `line` is refused with `code`, in a message that has all of `parts`.
pub(crate) fn refused(line: &str, code: i32, parts: &[&str]) {
    let run = guideway(line);
    assert_eq!(run.code, code, "{line}: {}{}", run.out, run.err);
    assert!(run.err.starts_with("error: "), "{line}: {}", run.err);
    for part in parts {
        assert!(run.err.contains(part), "{line}: {part:?} is not in {:?}", run.err);
    }
}

/// A file that a test may write.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A file with these bytes, by the name that a command line takes.
pub(crate) fn written(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = scratch(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A file of the repository.
pub(crate) fn in_repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}
