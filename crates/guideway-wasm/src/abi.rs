//! Four exports over one array of words: the only part that another language sees.
//!
//! The caller asks [`request`] for room, writes the question there, calls [`answer`], and reads the words at
//! [`response`]. A view of the memory must be made anew after each call, because memory may have grown.

use std::cell::RefCell;

#[derive(Default)]
struct Exchange {
    request: Vec<u32>,
    response: Vec<u32>,
}

thread_local! {
    // WebAssembly without threads: there is one.
    static EXCHANGE: RefCell<Exchange> = RefCell::default();
}

/// Room for a request of `words` words; its address.
// SAFETY: no other symbol of the module has this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn request(words: usize) -> *mut u32 {
    EXCHANGE.with_borrow_mut(|exchange| {
        exchange.request.clear();
        exchange.request.resize(words, 0);
        exchange.request.as_mut_ptr()
    })
}

/// Answers the request. 0: the response is the answer. 1: it is a text that says why there is none.
// SAFETY: no other symbol of the module has this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn answer() -> u32 {
    EXCHANGE.with_borrow_mut(|exchange| match crate::answer(&exchange.request) {
        Ok(words) => {
            exchange.response = words;
            0
        }
        Err(refusal) => {
            let mut writer = crate::words::Writer::default();
            writer.text(&refusal.to_string());
            exchange.response = writer.into_words();
            1
        }
    })
}

/// The address of the response's first word.
// SAFETY: no other symbol of the module has this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn response() -> *const u32 {
    EXCHANGE.with_borrow(|exchange| exchange.response.as_ptr())
}

/// The number of words of the response.
// SAFETY: no other symbol of the module has this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn response_words() -> usize {
    EXCHANGE.with_borrow(|exchange| exchange.response.len())
}
