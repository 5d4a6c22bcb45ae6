//! What holds for every profile, whatever it is given.

use guideway_hash::profile::{self, Member, Params, Profile, State};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Spec {
    key: String,
    weight: u32,
    locality: Option<u32>,
    state: State,
    last_weight: Option<u32>,
}

impl Spec {
    fn member(&self) -> Member<'_> {
        Member {
            locality: self.locality,
            state: self.state,
            last_weight: self.last_weight,
            ..Member::new(&self.key, self.weight)
        }
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    let key = prop_oneof![
        4 => (0..60_u8).prop_map(|last| format!("10.0.0.{last}")),
        2 => (0..9_u8, 80..84_u16).prop_map(|(last, port)| format!("10.0.0.{last}:{port}")),
        1 => any::<[u16; 8]>().prop_map(|words| std::net::Ipv6Addr::from(words).to_string()),
        1 => ".{0,12}",
    ];
    let weight = prop_oneof![4 => 0..10_u32, 1 => 0..101_u32, 1 => any::<u32>()];
    let state = prop::sample::select(vec![
        State::Active,
        State::Active,
        State::Active,
        State::Draining,
        State::Unhealthy,
        State::Inactive,
    ]);
    let locality = prop::option::of(0..4_u32);
    (key, weight, locality, state, prop::option::of(0..9_u32)).prop_map(
        |(key, weight, locality, state, last_weight)| Spec { key, weight, locality, state, last_weight },
    )
}

fn size() -> impl Strategy<Value = u32> {
    let listed =
        vec![0, 1, 2, 3, 4, 5, 6, 7, 12, 16, 100, 251, 256, 509, 1_021, 1_024, 65_536, u32::MAX, 1 << 31];
    prop_oneof![prop::sample::select(listed), 0..3_000_u32]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_build_ends_in_a_full_table_of_active_owners_or_in_an_error(
        profile in prop::sample::select(Profile::ALL.to_vec()),
        size in size(),
        specs in prop::collection::vec(spec(), 0..30),
        locality_weights in prop::option::of(prop::collection::vec(0..5_u32, 0..5)),
        dead in prop::collection::btree_set(0..30_u32, 0..4),
    ) {
        let members: Vec<Member<'_>> = specs.iter().map(Spec::member).collect();
        let params = Params { locality_weights, dead: dead.into_iter().collect(), ..Params::default() };
        match profile::build(profile, size, &members, &params) {
            Ok(built) => {
                prop_assert_eq!(built.table.size(), size);
                prop_assert_eq!(built.table.counts(members.len()).iter().map(|&count| u64::from(count)).sum::<u64>(), u64::from(size));
                for owner in &built.table {
                    let state = members[owner as usize].state;
                    prop_assert!(state == State::Active || profile == Profile::Glb && state != State::Inactive);
                }
                for warning in built.warnings {
                    prop_assert!(!warning.to_string().is_empty());
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn input_order_does_not_matter_where_the_rule_sorts(
        profile in prop::sample::select(vec![
            Profile::Native, Profile::Reference, Profile::Envoy, Profile::Cilium, Profile::KatranV1, Profile::KatranV2,
            Profile::Vpp, Profile::Vpp2602, Profile::Poise,
        ]),
        members in prop::collection::hash_map(0..200_u8, 1..20_u32, 1..40)
            .prop_flat_map(|map| {
                let members: Vec<(u8, u32)> = map.into_iter().collect();
                (Just(members.clone()), Just(members).prop_shuffle())
            }),
    ) {
        let size = match profile { Profile::Vpp | Profile::Vpp2602 => 1_024, _ => 1_021 };
        let owners = |members: &[(u8, u32)]| -> Vec<u8> {
            let keys: Vec<String> = members.iter().map(|(last, _)| format!("10.0.0.{last}")).collect();
            let list: Vec<Member<'_>> = keys.iter().zip(members).map(|(key, &(_, weight))| Member::new(key, weight)).collect();
            let built = profile::build(profile, size, &list, &Params::default()).unwrap();
            built.table.iter().map(|owner| members[owner as usize].0).collect()
        };
        prop_assert_eq!(owners(&members.0), owners(&members.1));
    }
}
