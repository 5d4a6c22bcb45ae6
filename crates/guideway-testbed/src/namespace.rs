//! Network namespaces.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::panic;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Context, Error, Result};
use crate::named::Name;
use crate::netlink::RouteSocket;

/// A network namespace of our own. Clones are handles to the same one.
///
/// It lives as long as a handle, a socket or a process of it does; the kernel takes it away after the last of them,
/// however this process ends. [`Namespace::named`] gives it a name for `ip netns` beside.
#[derive(Debug, Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    label: String,
    handle: File,
    route: Mutex<RouteSocket>,
    /// Taken away with the last handle.
    _name: Option<Name>,
}

/// What every namespace is set to before it has a link: addresses serve at once, no router is asked, and packets may
/// come by another way than their answers leave.
const SETTINGS: [(&str, &str); 8] = [
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/log_martians", "0"),
];

impl Namespace {
    /// A namespace without a name. `label` stands in error messages.
    ///
    /// # Errors
    /// [`Error::Privilege`] when it may not be made.
    pub fn new(label: &str) -> Result<Self> {
        Self::create(label, None)
    }

    /// A namespace that `ip netns` shows as `<prefix>-<process id>-<label>`.
    ///
    /// Those of the same prefix whose process is gone are taken away first.
    ///
    /// # Errors
    /// [`Error::Privilege`] when it may not be made; [`Error::System`] when the name cannot be written.
    pub fn named(prefix: &str, label: &str) -> Result<Self> {
        crate::named::clean(prefix)?;
        Self::create(label, Some(prefix))
    }

    fn create(label: &str, prefix: Option<&str>) -> Result<Self> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| Error::Privilege { source: error.into() })?;
            open_here()
        });
        let (handle, route) = made.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?;
        let name = prefix.map(|prefix| Name::give(prefix, label, &handle)).transpose()?;
        let inner = Inner { label: label.to_owned(), handle, route: Mutex::new(route), _name: name };
        let namespace = Self { inner: Arc::new(inner) };
        namespace.run(|| SETTINGS.iter().try_for_each(|(key, value)| write_setting(key, value)))??;
        namespace.link("lo")?.set_up(true)?;
        Ok(namespace)
    }

    /// The namespace that the calling thread is in, as it is.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn of_this_thread(label: &str) -> Result<Self> {
        let (handle, route) = open_here()?;
        let inner = Inner { label: label.to_owned(), handle, route: Mutex::new(route), _name: None };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What it is called in messages.
    pub fn label(&self) -> &str {
        &self.inner.label
    }

    /// Where other processes can enter it, as by `nsenter --net=PATH`, while this one lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.inner.handle.as_raw_fd()))
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets that it opens stay there. A panic goes on
    /// in the caller.
    ///
    /// # Errors
    /// [`Error::System`] when the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| self.enter().map(|()| work()));
            inside.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into the namespace, for good. For threads that were made for it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn enter(&self) -> Result<()> {
        setns(&self.inner.handle, CloneFlags::CLONE_NEWNET)
            .context(|| format!("entering the namespace {}", self.label()))
    }

    /// Writes a setting of `/proc/sys/net`, such as `ipv4/ip_forward`.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        self.run(|| write_setting(key, value))?
    }

    /// Reads a setting of `/proc/sys/net`.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn setting(&self, key: &str) -> Result<String> {
        let read = self.run(|| fs::read_to_string(setting_path(key)))?;
        read.map(|text| text.trim().to_owned()).context(|| format!("reading the setting {key}"))
    }

    pub(crate) fn handle(&self) -> &File {
        &self.inner.handle
    }

    pub(crate) fn route_socket(&self) -> MutexGuard<'_, RouteSocket> {
        // A panic between a request and its answer leaves at most an answer to skip, which the socket does by number.
        self.inner.route.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_here() -> Result<(File, RouteSocket)> {
    let handle = File::open("/proc/thread-self/ns/net")
        .context(|| "opening the network namespace of this thread".to_owned())?;
    Ok((handle, RouteSocket::open()?))
}

fn setting_path(key: &str) -> String {
    format!("/proc/sys/net/{key}")
}

fn write_setting(key: &str, value: &str) -> Result<()> {
    fs::write(setting_path(key), value).context(|| format!("setting {key} to {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privilege;

    #[test]
    fn a_closure_runs_inside_and_the_caller_stays_outside() {
        if !privilege::granted() {
            return;
        }
        let place = || fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = place();
        let namespace = Namespace::new("inside").unwrap();
        let inside = namespace.run(place).unwrap();
        assert_ne!(inside, before);
        assert_eq!(place(), before);
        assert_eq!(namespace.clone().run(place).unwrap(), inside);
    }

    #[test]
    fn settings_are_each_namespaces_own() {
        if !privilege::granted() {
            return;
        }
        let (one, other) = (Namespace::new("one").unwrap(), Namespace::new("other").unwrap());
        one.set("ipv4/ip_forward", "1").unwrap();
        assert_eq!(one.setting("ipv4/ip_forward").unwrap(), "1");
        assert_eq!(other.setting("ipv4/ip_forward").unwrap(), "0");
        let error = one.set("ipv4/no_such_setting", "1").unwrap_err().to_string();
        assert!(error.contains("ipv4/no_such_setting"), "{error}");
    }

    #[test]
    fn a_panic_inside_reaches_the_caller() {
        if !privilege::granted() {
            return;
        }
        let namespace = Namespace::new("panics").unwrap();
        let caught = panic::catch_unwind(|| namespace.run(|| panic!("inside")));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"inside"));
        namespace.run(|| ()).unwrap();
    }
}
