//! What a question is about: a policy, a size, a seed, backends.

use guideway_hash::maglev::{MaglevBuilder, Preference};
use guideway_hash::policy::{Candidate, State};
use guideway_hash::{NativeHasher, TableSize};

use crate::Refusal;
use crate::words::{Reader, Writer};

/// How flows find backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Maglev,
    RendezvousTable,
    Rendezvous,
    Ring,
    Jump,
    Modulo,
}

impl Kind {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        Ok(match reader.word()? {
            0 => Self::Maglev,
            1 => Self::RendezvousTable,
            2 => Self::Rendezvous,
            3 => Self::Ring,
            4 => Self::Jump,
            5 => Self::Modulo,
            value => return Err(Refusal::Choice { what: "policy", value }),
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Maglev => "maglev",
            Self::RendezvousTable => "rendezvous-table",
            Self::Rendezvous => "rendezvous",
            Self::Ring => "ring",
            Self::Jump => "jump",
            Self::Modulo => "modulo",
        }
    }
}

/// A policy with all that it is built from.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) kind: Kind,
    pub(crate) size: TableSize,
    pub(crate) seed: u64,
    /// Preferences are the backends' own, not hashed.
    pub(crate) given: bool,
    pub(crate) backends: Vec<Backend>,
}

/// A backend as the page has it.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) identity: String,
    pub(crate) weight: u32,
    pub(crate) eligible: bool,
    pub(crate) preference: Preference,
}

impl Setup {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let kind = Kind::read(reader)?;
        let size = TableSize::new(reader.word()?)?;
        let seed = reader.long()?;
        let given = flag(reader, "kind of preference")?;
        let backends = reader.list(|reader| {
            Ok(Backend {
                identity: reader.text()?,
                weight: reader.word()?,
                eligible: !flag(reader, "state")?,
                preference: Preference { offset: reader.word()?, skip: reader.word()? },
            })
        })?;
        Ok(Self { kind, size, seed, given, backends })
    }

    pub(crate) fn hasher(&self) -> NativeHasher {
        NativeHasher::new(self.seed)
    }

    pub(crate) fn candidates(&self) -> Vec<Candidate<'_>> {
        let state = |backend: &Backend| if backend.eligible { State::Eligible } else { State::Ineligible };
        let backends = self.backends.iter();
        backends.map(|b| Candidate::new(&b.identity).with_weight(b.weight).with_state(state(b))).collect()
    }

    /// The preference of a backend: its own or the one that its identity hashes to.
    pub(crate) fn preference(&self, index: u32) -> Preference {
        let backend = &self.backends[index as usize];
        if self.given {
            backend.preference
        } else {
            let builder = MaglevBuilder::new().size(self.size).hasher(self.hasher());
            builder.preference(backend.identity.as_bytes())
        }
    }
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, Refusal> {
    match reader.word()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Refusal::Choice { what, value }),
    }
}

/// Answers [`SIZE`](crate::question::SIZE).
pub(crate) fn answer_size(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let size = TableSize::new(reader.word()?)?.get();
    let prime = |n: &u32| TableSize::new(*n).is_ok();
    writer.word(size);
    writer.word((2..size).rev().find(prime).unwrap_or(0));
    writer.word((size + 1..=guideway_hash::prime::MAX).find(prime).unwrap_or(0));
    Ok(())
}
