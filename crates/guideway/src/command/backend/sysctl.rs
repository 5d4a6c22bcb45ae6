//! Settings of the kernel that a backend needs.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A setting, the least value that serves, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Below `net`, with slashes.
    pub(crate) key: String,
    /// The value that `up` writes.
    pub(crate) value: u32,
    /// What happens without it.
    pub(crate) why: &'static str,
}

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed {
    pub(crate) key: String,
    pub(crate) before: String,
    pub(crate) now: String,
}

/// What a backend that listens on `interface` needs, where it has IPv4.
///
/// The kernel takes the greater of an interface's value and that of `all` for each of the three.
pub(crate) fn needed(interface: &str) -> Vec<Setting> {
    let setting = |key: String, value, why| Setting { key, value, why };
    vec![
        // Loose, which wins over a strict `all`: 0 would not.
        setting(
            format!("ipv4/conf/{interface}/rp_filter"),
            2,
            "strict reverse path filtering drops clients' packets whose way back leads elsewhere",
        ),
        setting(
            "ipv4/conf/all/arp_ignore".into(),
            1,
            "this host would answer ARP requests for the virtual addresses, and take their traffic from the balancer",
        ),
        setting(
            "ipv4/conf/all/arp_announce".into(),
            2,
            "this host would name a virtual address as its own in ARP requests, and neighbours would remember that",
        ),
    ]
}

impl Setting {
    /// As `sysctl` writes it.
    pub(crate) fn dotted(&self) -> String {
        // An interface with dots in its name is written with slashes there.
        format!("net/{}", self.key)
    }

    /// What it is now.
    pub(crate) fn read(&self) -> Result<String, Failure> {
        read(&self.key)
            .map_err(|error| Failure::failed(format_args!("can't read {}: {error}", self.dotted())))
    }

    /// Whether `value` serves.
    pub(crate) fn serves(&self, value: &str) -> bool {
        // A filter switched off serves as well as a loose one, but only if `all` is off too: see the doctor. More than
        // the value is stricter, and as good.
        value.parse().is_ok_and(|value: u32| value >= self.value)
    }

    /// Sets it if it is something else; what was there then.
    pub(crate) fn apply(&self) -> Result<Option<Changed>, Failure> {
        let before = self.read()?;
        if self.serves(&before) {
            return Ok(None);
        }
        let now = self.value.to_string();
        write(&self.key, &now).map_err(|error| {
            Failure::failed(format_args!("can't set {} to {now}: {error}", self.dotted()))
        })?;
        Ok(Some(Changed { key: self.key.clone(), before, now }))
    }
}

impl Changed {
    /// Puts back what was there, unless somebody else has changed it since: whether it did.
    pub(crate) fn undo(&self) -> io::Result<bool> {
        if read(&self.key)? != self.now {
            return Ok(false);
        }
        write(&self.key, &self.before).map(|()| true)
    }
}

/// The value of an interface and that of `all`, whichever is greater: what the kernel goes by.
pub(crate) fn effective(interface: &str, name: &str) -> io::Result<u32> {
    let number = |scope: &str| -> io::Result<u32> {
        let text = read(&format!("ipv4/conf/{scope}/{name}"))?;
        text.parse().map_err(io::Error::other)
    };
    Ok(number(interface)?.max(number("all")?))
}

fn path(key: &str) -> String {
    format!("/proc/sys/net/{key}")
}

fn read(key: &str) -> io::Result<String> {
    fs::read_to_string(path(key)).map(|text| text.trim().to_owned())
}

fn write(key: &str, value: &str) -> io::Result<()> {
    fs::write(path(key), value)
}
