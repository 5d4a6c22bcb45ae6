//! Any request to the API, in process: no panic, every refusal is a problem with something to say, and what is refused or
//! only read changes nothing.
#![no_main]

use std::cell::RefCell;

use guideway_daemon::in_process::Api;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static API: RefCell<Api> = RefCell::new(Api::new().expect("a daemon without a network starts"));
}

fuzz_target!(|data: &[u8]| API.with_borrow_mut(|api| api.survive(data)));
