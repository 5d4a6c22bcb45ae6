//! What to do where no descriptor is left: whoever needed one says so, and not only that it failed.

use std::error::Error;
use std::io;

use nix::libc::{EMFILE, ENFILE};

/// Which limit is to be raised, where that is what an error comes from.
pub(crate) fn remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    match code(error)? {
        EMFILE => Some(
            "this process has as many files open as it may: raise LimitNOFILE= of its unit, or `ulimit -n` where a shell \
             starts it",
        ),
        ENFILE => Some("this machine has as many files open as it may: raise the sysctl fs.file-max"),
        _ => None,
    }
}

/// The system's number of an error, or of one that it comes from.
pub(crate) fn code(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(code) = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(code);
        }
        cause = inner.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::describe;

    #[test]
    fn which_limit_is_to_be_raised_is_told_wherever_the_error_lies() {
        #[derive(Debug, thiserror::Error)]
        #[error("opening it failed")]
        struct Outer(#[source] io::Error);
        let told = |code| describe(&Outer(io::Error::from_raw_os_error(code)));
        assert!(told(EMFILE).contains("LimitNOFILE="), "{}", told(EMFILE));
        assert!(told(ENFILE).contains("fs.file-max"), "{}", told(ENFILE));
        assert_eq!(told(nix::libc::ENOENT), "opening it failed: No such file or directory (os error 2)");
    }
}
