//! What is taken off an object: debug information, of which the kernel and the loader read BTF alone.

use anyhow::{Context, Result};
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// The object without its DWARF sections.
pub(crate) fn strip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut object = Builder::read(bytes).context("the linker wrote no ELF object")?;
    let mut has_names = false;
    for section in object.sections.iter_mut() {
        has_names |= matches!(section.data, SectionData::SectionString);
        let name = section.name.to_string();
        section.delete =
            [".debug", ".rel.debug", ".comment", ".llvm"].iter().any(|prefix| name.starts_with(prefix));
    }
    if !has_names {
        // LLVM keeps sections' names in the table of symbols' names; what is written has one of its own.
        let names = object.sections.add();
        names.name = ".shstrtab".into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    object.write(&mut stripped).context("writing the stripped object")?;
    Ok(stripped)
}
