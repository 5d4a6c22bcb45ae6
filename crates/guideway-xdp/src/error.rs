//! What can go wrong, where, and what to do.

use std::path::PathBuf;

use thiserror::Error;

use crate::occupant::holding_link;
use crate::ownership::Exposed;

/// An error of the kernel side.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The process lacks the privileges.
    #[error(
        "the kernel does not let this process load BPF programs: run it as root, or give it the capabilities CAP_BPF, \
         CAP_PERFMON and CAP_NET_ADMIN"
    )]
    NotPermitted,
    /// The kernel's verifier refused a program.
    #[error(
        "the verifier of this kernel refuses the program `{program}`: Linux 6.1 and newer are known to take it; \
         please report the kernel's version with the attached log"
    )]
    Refused {
        /// The program.
        program: &'static str,
        /// The verifier's log.
        log: String,
    },
    /// Another failure to load.
    #[error("loading the object of `{program}`: {reason}")]
    Load {
        /// The program.
        program: &'static str,
        /// What the loader says.
        reason: String,
    },
    /// A map of the object is missing or has another shape.
    #[error(
        "the map {map} is not as this version of Guideway needs it ({reason}): \
         the object and this program do not belong together; rebuild with `cargo xtask bpf`"
    )]
    Map {
        /// The map.
        map: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A pinned map has another shape than this version reads. It was not touched.
    #[error(
        "{path} is not as this version of Guideway reads it ({reason}): another version, or something else, made it; \
         it is left alone. Take its programs away with the version that made it, or remove the directory of the pins, \
         which ends its forwarding",
        path = path.display()
    )]
    Layout {
        /// The pin.
        path: PathBuf,
        /// What is different.
        reason: String,
    },
    /// A map cannot hold any more.
    #[error(
        "the map {map} cannot take another entry ({reason}): raise the limit of services (each brings room for eight \
         places to listen) and start anew"
    )]
    Full {
        /// The map.
        map: &'static str,
        /// What the kernel says.
        reason: String,
    },
    /// A change of where services listen failed half way, and so did going back.
    #[error(
        "where services listen was changed in part only, and could not be changed back: {reason}; \
         the next change puts it right"
    )]
    Torn {
        /// What failed, first and then.
        reason: String,
    },
    /// Mapping a map into the process failed.
    #[error(
        "mapping the map {map} of {bytes} bytes into this process failed: {source}; is the memory limit too low?"
    )]
    Mapping {
        /// The map.
        map: &'static str,
        /// Its size.
        bytes: usize,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// A test run failed.
    #[error("running the program on {bytes} bytes failed: {reason}")]
    Run {
        /// Length of the frame.
        bytes: usize,
        /// What the kernel says.
        reason: String,
    },
    /// Packets cannot be sampled. The balancer is as it was.
    #[error("cannot {doing}, so packets cannot be sampled: {reason}")]
    Sample {
        /// What was tried.
        doing: &'static str,
        /// What the kernel says.
        reason: String,
    },
    /// There is no such interface.
    #[error("there is no interface `{0}`: `ip link` lists those that there are")]
    NoInterface(String),
    /// Another program is attached already.
    #[error("{}. To have the interface, {}", Stranger { interface, name, id: *id }, Stranger { interface, name, id: *id }.remedy())]
    Occupied {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
        /// The program's name.
        name: String,
    },
    /// The program stayed where it should have been taken away.
    #[error(
        "the program is still at `{interface}` (id {id}), where packets are forwarded as before: its pin was gone, and another          process holds its link{}", holding_link(*id).map_or_else(String::new, |link| format!("; `bpftool link detach id {link}`"))
    )]
    Stays {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
    },
    /// The interface's driver cannot do what was asked.
    #[error("attaching to `{interface}` in {mode} mode failed: {reason}")]
    Attach {
        /// The interface.
        interface: String,
        /// The mode that was tried.
        mode: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// What is at an interface cannot be told.
    #[error("the kernel does not tell what is at `{interface}`: {reason}")]
    Untold {
        /// The interface.
        interface: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Pins that another network namespace uses. They were not touched.
    #[error(
        "{path} holds a program (id {program}, interface index {index}) that is at no interface of this network \
         namespace: another namespace uses these pins. Give this one a directory of its own (`--bpffs` of a backend, \
         `pins` of the balancer); to end what they hold instead, take it away in its own namespace, or remove that file",
        path = path.display()
    )]
    Elsewhere {
        /// The pin of its link.
        path: PathBuf,
        /// The program's id.
        program: u32,
        /// The index of its interface, there.
        index: u32,
    },
    /// Another process holds the pin directory.
    #[error(
        "{path} is in the hands of {holder}, a Guideway at work: stop that one first, or give another directory with \
         --pins; each daemon needs its own",
        path = path.display(),
        holder = process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    Held {
        /// The directory.
        path: PathBuf,
        /// The process, where the kernel tells.
        process: Option<u32>,
    },
    /// A directory of pins that others can change.
    #[error("{0}")]
    Exposed(Exposed),
    /// Something below the pin directory.
    #[error("{path}: {reason}", path = path.display())]
    Pin {
        /// The path.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// A program that is at an interface and not this balancer's own.
pub(crate) struct Stranger<'a> {
    pub(crate) interface: &'a str,
    pub(crate) name: &'a str,
    pub(crate) id: u32,
}

impl Stranger<'_> {
    /// What it is, where it is one of Guideway's own.
    fn own(&self) -> Option<&'static str> {
        match self.name {
            crate::balancer::PROGRAM => Some("Guideway"),
            crate::end::XDP => Some("decapsulator of Guideway's"),
            _ => None,
        }
    }

    /// How it goes away. What a link holds, `ip link` cannot take away.
    pub(crate) fn remedy(&self) -> String {
        let interface = self.interface;
        match self.name {
            crate::balancer::PROGRAM => {
                let unpinned = holding_link(self.id)
                    .map(|link| format!(", or, where its pins are gone, `bpftool link detach id {link}`"));
                format!(
                    "take that one over with its own --pins, or end it: `guideway detach --pins` with its directory{}",
                    unpinned.unwrap_or_default()
                )
            }
            crate::end::XDP => {
                "end it: `guideway backend down --bpffs` with its directory (and its --run-dir)".into()
            }
            _ => match holding_link(self.id) {
                Some(link) => format!(
                    "take it away with its own tool, or `bpftool link detach id {link}`; a BPF link holds it, so `ip link` \
                     cannot"
                ),
                None => format!("take it away with its own tool, or `ip link set dev {interface} xdp off`"),
            },
        }
    }
}

impl std::fmt::Display for Stranger<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { interface, name, id } = self;
        if let Some(own) = self.own() {
            write!(
                out,
                "a {own} with other pins has its program at `{interface}` (id {id}); it is left alone"
            )
        } else {
            write!(
                out,
                "another XDP program is attached to `{interface}`: id {id}, name `{name}`; it is left alone"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guideway_with_other_pins_is_told_from_other_programs() {
        let occupied = |name: &str| {
            Error::Occupied { interface: "eth0".into(), id: u32::MAX, name: name.into() }.to_string()
        };
        let ours = occupied(crate::balancer::PROGRAM);
        assert!(
            ours.contains("a Guideway with other pins") && ours.contains("guideway detach --pins"),
            "{ours}"
        );
        let decapsulator = occupied(crate::end::XDP);
        assert!(decapsulator.contains("guideway backend down --bpffs"), "{decapsulator}");
        let other = occupied("katran");
        assert!(other.contains("name `katran`") && other.contains("ip link set dev eth0 xdp off"), "{other}");
    }
}
