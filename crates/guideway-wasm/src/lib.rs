//! The hashing library behind the laboratory page: one question in, one answer out, both arrays of 32-bit words.
//!
//! Nothing is computed here that `guideway-hash` computes: this crate reads a [question], asks the library,
//! and writes down what it says. `abi` (on the WebAssembly target) puts that behind four plain exports over one
//! typed array; everywhere else [`answer`] is an ordinary function, which is how it is tested.
//!
//! # Words
//! Numbers are one word, 64-bit ones two (low first), floats the bits of an `f64` in two. A text is its length in bytes,
//! then its bytes, four a word, little-endian, the last word padded with zeros. A list is its length, then its items.
//! The first word of a request names the [`question`]; what follows is told there.

#[cfg(target_arch = "wasm32")]
mod abi;
mod bids;
mod change;
mod draft;
mod profile;
pub mod question;
mod refusal;
mod setup;
mod solution;
pub mod words;

pub use refusal::Refusal;

use words::{Reader, Writer};

/// Answers the question in `request`.
///
/// # Errors
/// [`Refusal`]: the library's own refusals, and requests that can't be read.
pub fn answer(request: &[u32]) -> Result<Vec<u32>, Refusal> {
    let mut reader = Reader::new(request);
    let mut writer = Writer::default();
    let (reader, writer) = (&mut reader, &mut writer);
    match reader.word()? {
        question::SIZE => setup::answer_size(reader, writer),
        question::CELLS => solution::answer_cells(reader, writer),
        question::DRAFT => draft::answer(reader, writer),
        question::LOOKUP => solution::answer_lookup(reader, writer),
        question::BIDS => bids::answer(reader, writer),
        question::CHANGE => change::answer_cells(reader, writer),
        question::FLOWS => change::answer_flows(reader, writer),
        question::PROFILE => profile::answer_table(reader, writer),
        question::PROFILE_FLOW => profile::answer_flow(reader, writer),
        other => return Err(Refusal::Question(other)),
    }?;
    reader.end()?;
    Ok(std::mem::take(writer).into_words())
}
