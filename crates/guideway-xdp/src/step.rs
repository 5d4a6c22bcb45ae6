//! The steps of a change of where services listen, so that a test can look, or end the process, before each of them.
//! Records and slots are stored through [`Balancer`](crate::Balancer)'s own methods, where whoever calls them can count.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

/// Has this called before each step that packets can see, from now on and for all balancers of the process. The first
/// call of this counts.
pub fn before_each(hook: fn()) {
    let _ = HOOK.set(hook);
}

/// A step comes: a system call or the store that puts another directory in use, beside which a look here is nothing.
pub(crate) fn comes() {
    if let Some(hook) = HOOK.get() {
        hook();
    }
}
