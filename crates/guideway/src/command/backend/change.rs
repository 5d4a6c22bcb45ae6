//! What `up` and `down` do to a host: told as it happens, or all of it at the end as JSON.

use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Serialize;

use crate::screen::Screen;

/// One thing done, or left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub(crate) enum Change {
    /// A virtual address is on the loopback interface now.
    AddressAdded { address: IpAddr },
    /// It is there no more.
    AddressRemoved { address: IpAddr },
    /// A setting of the kernel's has another value.
    SettingChanged { setting: String, before: String, now: String },
    /// It has its old value again.
    SettingRestored { setting: String, now: String },
    /// Somebody else has changed it since.
    SettingLeft { setting: String, expected: String },
    /// The decapsulator and the clamp are attached.
    Attached { interface: String, hook: &'static str, replaced: bool, fell_back: Option<String> },
    /// They are not any more.
    Detached { interface: String },
    /// Maps are gone that no program belonged to.
    MapsRemoved { pins: PathBuf },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressAdded { address } => write!(f, "added {address} to lo"),
            Self::AddressRemoved { address } => write!(f, "removed {address} from lo"),
            Self::SettingChanged { setting, before, now } => {
                write!(f, "set {setting} = {now} (was {before})")
            }
            Self::SettingRestored { setting, now } => write!(f, "set {setting} back to {now}"),
            Self::SettingLeft { setting, expected } => {
                write!(f, "left {setting} alone: it is no longer {expected}, which `up` had set")
            }
            Self::Attached { interface, hook, replaced, fell_back } => {
                let verb = if *replaced { "replaced our own on" } else { "attached to" };
                write!(f, "decapsulator {verb} {interface}: {}", hook_words(hook))?;
                fell_back.iter().try_for_each(|reason| write!(f, "\n  not in the driver: {reason}"))
            }
            Self::Detached { interface } => write!(f, "took the decapsulator off {interface}"),
            Self::MapsRemoved { pins } => {
                write!(f, "removed the maps in {}, which an `up` that was killed had left", pins.display())
            }
        }
    }
}

/// A hook, for people.
fn hook_words(hook: &str) -> &str {
    match hook {
        "native" => "XDP in the driver (native)",
        "generic" => "XDP in the network stack (generic)",
        "tc" => "TC ingress (tc)",
        other => other,
    }
}

/// Where changes are told.
pub(crate) struct Log<'a> {
    pub(crate) screen: &'a mut Screen,
    json: bool,
    changes: Vec<Change>,
    /// Why telling failed at first. What is to be done is done all the same.
    untold: Option<io::Error>,
}

impl<'a> Log<'a> {
    pub(crate) fn new(screen: &'a mut Screen, json: bool) -> Self {
        Self { screen, json, changes: Vec::new(), untold: None }
    }

    /// Tells of a change, where anybody listens: a set-up must not end half way because nobody does.
    pub(crate) fn tell(&mut self, change: Change) {
        if !self.json && self.untold.is_none() {
            // At once: if a later step fails, this one is known.
            self.untold = writeln!(self.screen, "{change}").and_then(|()| self.screen.finish()).err();
        }
        self.changes.push(change);
    }

    /// The end: `value` with the changes in it as JSON, or nothing for people. Whether people read.
    pub(crate) fn end(self, mut value: serde_json::Value) -> io::Result<()> {
        if !self.json {
            return self.untold.map_or(Ok(()), Err);
        }
        if let Some(object) = value.as_object_mut() {
            object.insert("changes".into(), serde_json::to_value(&self.changes)?);
        }
        self.screen.json(&value)
    }

    pub(crate) fn is_for_people(&self) -> bool {
        !self.json
    }
}
