//! What a table or policy is made by: profile, size, seed, parameters.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use guideway_hash::maglev::BuildError;
use guideway_hash::policy::{
    Balancer, Candidate, Jump, Modulo, Policy, ReconcileError, Rendezvous, RendezvousTable, Ring, Roster,
    Rule, State,
};
use guideway_hash::profile::{self, Params, Profile, ProfileError};
use guideway_hash::table::{MAX_NARROW_BACKENDS, Slots};
use guideway_hash::{NativeHasher, Table, TableSize, prime};

use super::backends::{Backend, same_identity};
use crate::failure::Failure;

/// How to make it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RecipeArgs {
    /// Whose rule to follow; `guideway table profiles` lists them
    #[arg(short, long, value_name = "PROFILE", default_value = "native", value_parser = profile_parser())]
    pub(crate) profile: Profile,

    /// Slots: a number, or `auto` for some 100 slots a backend; the profile's own default otherwise
    #[arg(short, long, value_name = "N|auto", value_parser = SizeChoice::parse)]
    pub(crate) size: Option<SizeChoice>,

    /// The seed that the fleet shares (native profile); decimal, or hexadecimal after 0x
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<String>,

    /// A parameter of the profile; `guideway table profiles PROFILE` names them. May be given several times
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub(crate) params: Vec<(String, String)>,

    /// How a backend is chosen (native profile)
    #[arg(long, value_name = "POLICY", default_value = "maglev")]
    pub(crate) policy: PolicyName,
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Backends draft the slots of a table in turns: even shares, one array read a look-up
    Maglev,
    /// Each slot to its weighted rendezvous winner: no needless move, shares by chance
    RendezvousTable,
    /// Weighted rendezvous without a table: no needless move, a hash for each backend a look-up
    Rendezvous,
    /// A ring with 160 virtual nodes for each unit of weight
    Ring,
    /// Jump consistent hashing: no memory, no weights, cheap changes only at the end
    Jump,
    /// The remainder by the number of backends: the naive baseline
    Modulo,
}

impl PolicyName {
    pub(crate) fn name(self) -> &'static str {
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

/// A number of slots, or one that suits the backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeChoice {
    Auto,
    Slots(u32),
}

impl SizeChoice {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let digits: String = text.chars().filter(|&c| c != '_' && c != ',').collect();
        digits.parse().map(Self::Slots).map_err(|_| "write a number of slots such as 65537, or auto".into())
    }
}

/// Reads profile names; clap lists them, and suggests one when a name is mistyped.
pub(crate) fn profile_parser() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(Profile::name)).try_map(|name| name.parse::<Profile>())
}

fn parse_param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as seed=7")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// A recipe that has been read and makes sense.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) profile: Profile,
    pub(crate) params: Params,
    pub(crate) policy: PolicyName,
    size: Option<SizeChoice>,
}

impl Recipe {
    pub(crate) fn new(args: &RecipeArgs) -> Result<Self, Failure> {
        let profile = args.profile;
        if profile != Profile::Native && args.policy != PolicyName::Maglev {
            let policy = args.policy.name();
            return Err(Failure::usage(format!(
                "policy {policy} belongs to the native profile and profile {profile} has its own rule; drop --policy or --profile"
            )));
        }
        let seed = args.seed.as_deref().map(|seed| ("seed", seed));
        let given = args.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let params = Params::parse(profile, seed.into_iter().chain(given)).map_err(|error| {
            let names = args.params.iter().map(|(name, _)| name);
            let strange = names.clone().find(|name| !profile.params().contains(&name.as_str()));
            let hint = strange
                .map(|name| crate::nearest::hint(name, profile.params().iter().copied()))
                .unwrap_or_default();
            Failure::usage(format!("{error}{hint}"))
        })?;
        Ok(Self { profile, params, policy: args.policy, size: args.size })
    }

    /// The hasher of the native profile.
    pub(crate) fn hasher(&self) -> NativeHasher {
        NativeHasher::new(self.params.seed)
    }

    /// The number of slots for these backends.
    pub(crate) fn size(&self, backends: &[Backend]) -> u32 {
        match self.size {
            None => self.profile.default_size(),
            Some(SizeChoice::Slots(slots)) => slots,
            Some(SizeChoice::Auto) => {
                let eligible = backends.iter().filter(|backend| backend.is_eligible(self.profile)).count();
                auto_size(self.profile, eligible)
            }
        }
    }

    /// Builds for `backends`.
    pub(crate) fn build(&self, backends: &[Backend]) -> Result<Assignment, Failure> {
        let (table, policy, warnings) = match self.policy {
            PolicyName::Maglev => {
                let members: Vec<_> = backends.iter().map(|backend| backend.member(self.profile)).collect();
                let size = self.size(backends);
                if self.profile == Profile::Native {
                    // The same rule as the profile's, and this error names the nearest sizes.
                    TableSize::new(size).map_err(Failure::usage)?;
                }
                let built =
                    profile::build(self.profile, size, &members, &self.params).map_err(
                        |error| match error {
                            ProfileError::Table(BuildError::DuplicateIdentity { first, second }) => {
                                same_identity(backends, first, second)
                            }
                            error @ ProfileError::Size { .. } => Failure::usage(error),
                            other => Failure::failed(other),
                        },
                    )?;
                let warnings = built.warnings.iter().map(ToString::to_string).collect();
                (Some(built.table), None, warnings)
            }
            PolicyName::RendezvousTable => {
                let size = TableSize::new(self.size(backends)).map_err(Failure::usage)?;
                let policy = self.reconciled(RendezvousTable::new(size), backends)?;
                (Some(by_place(&*policy, size.get(), backends.len())), None, Vec::new())
            }
            PolicyName::Rendezvous => (None, Some(self.reconciled(Rendezvous, backends)?), Vec::new()),
            PolicyName::Ring => (None, Some(self.reconciled(Ring::default(), backends)?), Vec::new()),
            PolicyName::Jump => (None, Some(self.reconciled(Jump, backends)?), Vec::new()),
            PolicyName::Modulo => (None, Some(self.reconciled(Modulo, backends)?), Vec::new()),
        };
        let answers = match (table, policy) {
            (Some(table), _) => Answers::Table(table),
            (None, Some(policy)) => Answers::Policy(policy),
            (None, None) => unreachable!("each policy gives one or the other"),
        };
        Ok(Assignment { recipe: self.clone(), answers, warnings })
    }

    fn reconciled<R: Rule + 'static>(
        &self,
        rule: R,
        backends: &[Backend],
    ) -> Result<Box<dyn Policy>, Failure> {
        let mut policy = Balancer::with_hasher(rule, self.hasher());
        policy.reconcile(&self.candidates(backends)).map_err(|error| match error {
            ReconcileError::Duplicate { first, second } => same_identity(backends, first, second),
            other => Failure::failed(other),
        })?;
        Ok(Box::new(policy))
    }

    fn candidates<'a>(&self, backends: &'a [Backend]) -> Vec<Candidate<'a>> {
        let candidate = |backend: &'a Backend| {
            let eligible = backend.is_eligible(self.profile);
            let state = if eligible { State::Eligible } else { State::Ineligible };
            Candidate::new(&backend.name).with_weight(backend.weight(self.profile)).with_state(state)
        };
        backends.iter().map(candidate).collect()
    }

    /// Whether weights shift shares under this recipe.
    pub(crate) fn is_weighted(&self) -> bool {
        use Profile as P;
        let policy = !matches!(self.policy, PolicyName::Jump | PolicyName::Modulo);
        policy && !matches!(self.profile, P::Reference | P::Vpp2602 | P::GoMaglev | P::Poise | P::Glb)
    }
}

/// The table of a policy's answers for each slot, by place in the list.
fn by_place(policy: &dyn Policy, size: u32, backends: usize) -> Table {
    let owners = (0..u64::from(size)).filter_map(|slot| policy.pick_hash(slot));
    Table::new(if backends <= MAX_NARROW_BACKENDS {
        Slots::U16(owners.map(|place| place as u16).collect())
    } else {
        Slots::U32(owners.map(|place| place as u32).collect())
    })
}

/// The smallest size that `profile` has and that gives `backends` a hundred slots each.
fn auto_size(profile: Profile, backends: usize) -> u32 {
    let powers = (0..=22).map(|bits| 1 << bits);
    let mut sizes: Vec<u32> = prime::LISTED.into_iter().chain([65_521, 65_536]).chain(powers).collect();
    sizes.retain(|&size| size >= 251 && profile.has_size(size));
    sizes.sort_unstable();
    // The ten primes and the powers of two are there for those who know no others; primes come first.
    if profile.has_size(prime::MAX) {
        sizes.retain(|size| prime::LISTED.contains(size));
    }
    let enough = sizes.iter().find(|&&size| size as usize >= backends.saturating_mul(100));
    enough.or(sizes.last()).copied().unwrap_or(profile.default_size())
}

/// What was built.
pub(crate) struct Assignment {
    pub(crate) recipe: Recipe,
    pub(crate) answers: Answers,
    pub(crate) warnings: Vec<String>,
}

/// What knows the backend of a flow. Owners are places in the list of backends.
pub(crate) enum Answers {
    Table(Table),
    Policy(Box<dyn Policy>),
}

impl Assignment {
    /// The table, where there is one.
    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.answers {
            Answers::Table(table) => Some(table),
            Answers::Policy(_) => None,
        }
    }

    /// The table, or why there is none.
    pub(crate) fn require_table(&self) -> Result<&Table, Failure> {
        self.table().ok_or_else(|| {
            let policy = self.recipe.policy.name();
            Failure::usage(format!(
                "policy {policy} has no table; take --policy maglev or rendezvous-table, or look at {policy} with `lookup` or `diff`"
            ))
        })
    }

    /// The place of the backend for a flow of this hash.
    pub(crate) fn owner(&self, hash: u64) -> u32 {
        match &self.answers {
            Answers::Table(table) => table.pick(hash),
            // It is committed, so it has an answer.
            Answers::Policy(policy) => policy.pick_hash(hash).unwrap_or_default() as u32,
        }
    }

    /// Those who take part, for comparisons. A backend that owns a slot takes part whatever its weight says, because
    /// some profiles have it so.
    pub(crate) fn roster(&self, backends: &[Backend]) -> Result<Roster, Failure> {
        let profile = self.recipe.profile;
        let counts = self.table().map(|table| table.counts(backends.len()));
        let candidates = backends.iter().enumerate().map(|(place, backend)| {
            let owns = counts.as_ref().is_some_and(|counts| counts[place] > 0);
            let eligible = owns || backend.is_eligible(profile);
            let state = if eligible { State::Eligible } else { State::Ineligible };
            Candidate::new(&backend.name).with_weight(backend.weight(profile).max(1)).with_state(state)
        });
        Roster::new(&candidates.collect::<Vec<_>>()).map_err(Failure::failed)
    }

    /// The digest of what new flows are answered.
    pub(crate) fn digest(&self, backends: &[Backend]) -> Option<String> {
        let rule = self.recipe.profile.flow_rule(&self.recipe.params);
        let names: Vec<_> = backends.iter().map(|backend| &backend.name).collect();
        self.table()?.digest(rule, &names).ok().map(|digest| digest.to_string())
    }

    /// `native maglev table of 65537 slots`, or what it is.
    pub(crate) fn title(&self) -> String {
        let policy = self.recipe.policy.name();
        match &self.answers {
            Answers::Table(table) if self.recipe.profile == Profile::Native => {
                format!(
                    "native {policy} table of {} slots, seed {:#x}",
                    table.size(),
                    self.recipe.params.seed
                )
            }
            Answers::Table(table) => format!("{} table of {} slots", self.recipe.profile, table.size()),
            Answers::Policy(_) => format!("native {policy}, seed {:#x}", self.recipe.params.seed),
        }
    }

    /// Says the warnings on standard error.
    pub(crate) fn warn(&self) {
        for warning in &self.warnings {
            crate::screen::report("warning", format!("profile {}: {warning}", self.recipe.profile));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_sizes_are_sizes_of_the_profile() {
        for profile in Profile::ALL {
            for backends in [0, 1, 10, 100, 1_000, 100_000] {
                assert!(profile.has_size(auto_size(profile, backends)), "{profile} {backends}");
            }
        }
        for backends in [1, 3, 10, 656, 5_000] {
            assert_eq!(auto_size(Profile::Native, backends), TableSize::auto(backends).get());
        }
        assert_eq!(auto_size(Profile::Vpp, 10), 1024);
        assert_eq!(auto_size(Profile::IpvsMh, 600), 65_521);
    }
}
