//! How much stack the calls of a kernel program take, read from its object.
//!
//! The kernel allows 512 bytes to all frames of a chain of calls. Kernels before 6.8 round each frame up to 32 bytes,
//! newer ones to 16, so that what the newest kernel takes may be refused by an older one.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolIndex, SymbolKind};
use serde::{Deserialize, Serialize};

/// What the kernel allows, in bytes (`MAX_BPF_STACK`).
const ALLOWED: u32 = 512;

/// What older kernels round a frame up to, in bytes.
const ROUND: u32 = 32;

/// The opcode of a call; of other functions of the program where its source register is 1.
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;

/// `rX = r10` and `rX += imm`.
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
/// The register that points to the end of the frame.
const FRAME_POINTER: u8 = 10;

/// The longest chain of calls of an object, by what it takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chain {
    /// In bytes, each frame rounded up.
    pub(crate) bytes: u32,
    /// From the program down.
    pub(crate) functions: Vec<String>,
}

impl Chain {
    /// That every kernel allows it.
    pub(crate) fn check(&self, object: &str) -> Result<()> {
        if self.bytes > ALLOWED {
            bail!(
                "{object}: the calls {} take {} bytes of stack, and kernels before 6.8 allow {ALLOWED}: inline one, or \
                 keep less in a frame",
                self.functions.join(" -> "),
                self.bytes
            );
        }
        Ok(())
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "at most {} of {ALLOWED} bytes of stack, by {}", self.bytes, self.functions.join(" -> "))
    }
}

/// A function of the object.
#[derive(Debug, Default)]
struct Function {
    name: String,
    /// Bytes of its frame, as far as it names them.
    frame: u32,
    calls: Vec<Place>,
}

/// Where a function begins: section and offset.
type Place = (usize, u64);

/// The chain of calls of this object that takes most stack.
pub(crate) fn deepest(bytes: &[u8]) -> Result<Chain> {
    let object = object::File::parse(bytes).context("reading the object")?;
    let mut functions = BTreeMap::new();
    for symbol in object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
        let Some(section) = symbol.section_index() else { continue };
        functions.insert((section.0, symbol.address()), read(&object, &symbol)?);
    }
    Ok(functions
        .keys()
        .map(|place| chain(&functions, *place))
        .max_by_key(|chain| chain.bytes)
        .unwrap_or_default())
}

/// Recursion ends, as the kernel takes no program that calls itself.
fn chain(functions: &BTreeMap<Place, Function>, place: Place) -> Chain {
    let Some(function) = functions.get(&place) else { return Chain::default() };
    let below = function.calls.iter().map(|call| chain(functions, *call)).max_by_key(|chain| chain.bytes);
    let mut chain = below.unwrap_or_default();
    chain.bytes += function.frame.max(1).next_multiple_of(ROUND);
    chain.functions.insert(0, function.name.clone());
    chain
}

fn read<'data>(object: &object::File<'data>, symbol: &object::Symbol<'data, '_>) -> Result<Function> {
    let index = symbol.section_index().context("a function lies in a section")?;
    let section = object.section_by_index(index)?;
    let code = section.data_range(symbol.address(), symbol.size())?.context("a function has code")?;
    let relocated: BTreeMap<u64, SymbolIndex> = section
        .relocations()
        .filter_map(|(offset, relocation)| match relocation.target() {
            RelocationTarget::Symbol(target) => Some((offset, target)),
            _ => None,
        })
        .collect();
    let mut function = Function { name: symbol.name()?.to_owned(), ..Function::default() };
    let mut copied = None;
    for (number, instruction) in code.as_chunks::<8>().0.iter().enumerate() {
        let &[opcode, registers, low, high, a, b, c, d] = instruction;
        let (destination, source) = (registers & 0xf, registers >> 4);
        let (offset, immediate) = (i16::from_le_bytes([low, high]), i32::from_le_bytes([a, b, c, d]));
        // The classes of loads through a register, and of the two kinds of stores.
        let touched = match opcode & 7 {
            1 if source == FRAME_POINTER => i32::from(offset),
            2 | 3 if destination == FRAME_POINTER => i32::from(offset),
            _ if opcode == ADD && copied == Some(destination) => immediate,
            _ => 0,
        };
        function.frame = function.frame.max(touched.min(0).unsigned_abs());
        copied = (opcode == COPY && source == FRAME_POINTER).then_some(destination);
        if opcode == CALL && source == PSEUDO_CALL {
            let at = symbol.address() + number as u64 * 8;
            function.calls.push(match relocated.get(&at) {
                Some(target) => called(object, *target, immediate)?,
                None => (index.0, at.wrapping_add_signed((i64::from(immediate) + 1) * 8)),
            });
        }
    }
    Ok(function)
}

/// The function that a relocation names: by itself, or as a place in a section.
fn called(object: &object::File<'_>, target: SymbolIndex, immediate: i32) -> Result<Place> {
    let target = object.symbol_by_index(target)?;
    let section = target.section_index().context("a called function lies in a section")?;
    let offset = match target.kind() {
        SymbolKind::Section => u64::try_from((i64::from(immediate) + 1) * 8)?,
        _ => target.address(),
    };
    Ok((section.0, offset))
}

#[cfg(test)]
mod tests {
    use object::write::{Object as Written, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolScope};

    use super::*;

    /// An object with one section of functions, each of some instructions.
    fn object(functions: &[(&str, &[[u8; 8]])]) -> Result<Vec<u8>> {
        let mut object = Written::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let section = object.section_id(object::write::StandardSection::Text);
        for (name, code) in functions {
            let code = code.concat();
            let symbol = object.add_symbol(Symbol {
                name: name.as_bytes().to_vec(),
                value: 0,
                size: 0,
                kind: SymbolKind::Text,
                scope: SymbolScope::Compilation,
                weak: false,
                section: SymbolSection::Undefined,
                flags: SymbolFlags::None,
            });
            object.add_symbol_data(symbol, section, &code, 8);
        }
        Ok(object.write()?)
    }

    const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

    /// `*(u64 *)(r10 + offset) = r1`
    const fn store(offset: i16) -> [u8; 8] {
        let [low, high] = offset.to_le_bytes();
        [0x7b, 0x1a, low, high, 0, 0, 0, 0]
    }

    const fn call(instructions: i32) -> [u8; 8] {
        let [a, b, c, d] = instructions.to_le_bytes();
        [CALL, PSEUDO_CALL << 4, 0, 0, a, b, c, d]
    }

    #[test]
    fn frames_are_rounded_up_and_added_along_the_longest_chain() -> Result<()> {
        // `first` calls `second` and `third`, which lie behind it.
        let object = object(&[
            ("first", &[store(-40), call(2), call(3), EXIT]),
            ("second", &[store(-8), EXIT]),
            ("third", &[store(-300), EXIT]),
        ])?;
        let chain = deepest(&object)?;
        assert_eq!((chain.bytes, chain.functions.join(" ")), (64 + 320, "first third".to_owned()));
        assert!(chain.check("object").is_ok());
        Ok(())
    }

    #[test]
    fn a_pointer_into_the_frame_counts_as_far_as_it_points() -> Result<()> {
        let copy = [COPY, 0xa2, 0, 0, 0, 0, 0, 0];
        let [a, b, c, d] = (-520_i32).to_le_bytes();
        let object = object(&[("only", &[copy, [ADD, 2, 0, 0, a, b, c, d], EXIT])])?;
        let chain = deepest(&object)?;
        assert_eq!(chain.bytes, 544);
        assert!(chain.check("object").is_err_and(|error| error.to_string().contains("only")));
        Ok(())
    }
}
