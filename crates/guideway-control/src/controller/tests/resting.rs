//! Services that rest are passed over by ticks: beside a controller of which every tick looks at every service.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 3] = ["api", "dns", "web"];

#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    Remove(usize),
    AddBackend(usize, u8),
    RemoveBackend(usize, u8, Removal),
    Admin(usize, u8, Admin),
    Found(usize, u8, Health),
    FoundOfRemoved(usize, u8, Health),
    End(usize, u8),
    NextHop(u8),
    Resize(usize, u32),
    Idle(usize, u32),
    Flow(usize, usize, u32, u16),
    Packet(usize, u16),
    Pass(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (service, backend) = (|| 0..NAMES.len(), || 1..6_u8);
    let removal = prop_oneof![Just(Removal::Drain), Just(Removal::AtOnce)];
    let admin = prop_oneof![Just(Admin::Active), Just(Admin::Draining), Just(Admin::Disabled)];
    let health = || prop_oneof![Just(Health::Up), Just(Health::Down)];
    let step = prop_oneof![
        1 => service().prop_map(Step::Add),
        1 => service().prop_map(Step::Remove),
        2 => (service(), backend()).prop_map(|(s, b)| Step::AddBackend(s, b)),
        3 => (service(), backend(), removal).prop_map(|(s, b, r)| Step::RemoveBackend(s, b, r)),
        3 => (service(), backend(), admin).prop_map(|(s, b, a)| Step::Admin(s, b, a)),
        3 => (service(), backend(), health()).prop_map(|(s, b, h)| Step::Found(s, b, h)),
        1 => (service(), backend(), health()).prop_map(|(s, b, h)| Step::FoundOfRemoved(s, b, h)),
        1 => (service(), backend()).prop_map(|(s, b)| Step::End(s, b)),
        1 => backend().prop_map(Step::NextHop),
        2 => (service(), prop_oneof![Just(251_u32), Just(509), Just(1_009)]).prop_map(|(s, n)| Step::Resize(s, n)),
        1 => (service(), 1..9_u32).prop_map(|(s, n)| Step::Idle(s, n)),
        3 => (service(), 0..64_usize, 0..251_u32, 0..6_u16).prop_map(|(s, p, n, b)| Step::Flow(s, p, n, b)),
        2 => (service(), 0..6_u16).prop_map(|(s, b)| Step::Packet(s, b)),
        6 => (1..4_u32).prop_map(Step::Pass),
        3 => (4..30_u32).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

/// A controller without room for all tables that may be asked for.
fn scanty() -> Controller<Arc<Memory>> {
    let limits = Limits { services: 4, backends: 128, slots: 2_600, flows: 256, ..Limits::default() };
    Controller::new(Arc::new(Memory::new(limits, [1, 2])))
}

/// A small service; its name says where it listens.
fn small(service: usize) -> ServiceSpec {
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, service as u8));
    ServiceSpec {
        name: NAMES[service].into(),
        listen: vec![Listen::on(address, NonZeroU16::MIN, Protocol::Tcp)],
        tcp_idle_seconds: 9,
        udp_idle_seconds: 3,
        ..super::service(of(1..=3), 251)
    }
}

impl Step {
    /// Does it, whether it is possible or not, and gives what came of it in words.
    fn take(
        &self,
        controller: &mut Controller<Arc<Memory>>,
        mut tick: impl FnMut(&mut Controller<Arc<Memory>>) -> Ticked,
    ) -> String {
        use guideway_forward::state::Counters;
        let be = |backend: u8| format!("be{backend}");
        let address = |backend: u8| super::backend(backend, 1).address;
        match *self {
            Self::Add(s) => format!("{:?}", controller.add_service(small(s), Health::Unchecked)),
            Self::Remove(s) => format!("{:?}", controller.remove_service(NAMES[s])),
            Self::AddBackend(s, b) => {
                format!("{:?}", controller.add_backend(NAMES[s], backend(b, 1), Health::Up))
            }
            Self::RemoveBackend(s, b, r) => format!("{:?}", controller.remove_backend(NAMES[s], &be(b), r)),
            Self::Admin(s, b, a) => format!("{:?}", controller.set_admin(NAMES[s], &be(b), a)),
            Self::Found(s, b, h) => format!("{:?}", controller.set_health(NAMES[s], &be(b), h)),
            Self::FoundOfRemoved(s, b, h) => {
                format!("{:?}", controller.set_removed_health(NAMES[s], &be(b), address(b), h))
            }
            Self::End(s, b) => format!("{:?}", controller.end_removed(NAMES[s], &be(b), address(b))),
            Self::NextHop(b) => {
                let way = NextHop { interface: 2, ..backend(b, 1).tunnel.next_hop };
                controller.set_next_hop(address(b), way).to_string()
            }
            Self::Resize(s, slots) => {
                format!("{:?}", controller.resize(NAMES[s], TableSizeSpec::Slots(slots), 7))
            }
            Self::Idle(s, seconds) => {
                let Some(held) = controller.services.get(NAMES[s]) else { return String::new() };
                let spec =
                    ServiceSpec { tcp_idle_seconds: seconds, udp_idle_seconds: seconds, ..held.spec.clone() };
                format!("{:?}", controller.replace_service(spec, Health::Up))
            }
            Self::Flow(s, place, slot, backend) => {
                if controller.services.contains_key(NAMES[s]) {
                    remember_of(controller, NAMES[s], place, slot, backend, Class::Old);
                }
                String::new()
            }
            Self::Packet(s, backend) => {
                if let Some(held) = controller.services.get(NAMES[s]) {
                    let global = held.places.offset + u32::from(backend);
                    Counters::backend(&controller.engine().worker().unwrap(), global, 60);
                }
                String::new()
            }
            Self::Pass(seconds) => {
                let ticked = (0..seconds).map(|_| {
                    controller.engine().set_now_seconds(controller.engine().now_seconds() + 1);
                    tick(controller)
                });
                format!("{:?}", ticked.collect::<Vec<_>>())
            }
        }
    }
}

fn wake_all(controller: &mut Controller<Arc<Memory>>) {
    for name in controller.service_names().map(str::to_owned).collect::<Vec<_>>() {
        controller.services.get_mut(&name);
    }
}

/// What packets and people see of it.
fn seen(controller: &Controller<Arc<Memory>>) -> String {
    let words = |held: &Held| -> Vec<u32> {
        let region = |region: Region| {
            (0..region.len).map(move |slot| service::read(controller.engine(), region, slot).0)
        };
        let prior = held.prior.iter().flat_map(|prior| region(prior.region));
        region(held.table).chain(prior).collect()
    };
    let words: Vec<_> = controller.services.values().map(words).collect();
    let heard: Vec<_> = controller
        .services
        .values()
        .flat_map(|held| &held.members)
        .flatten()
        .map(|member| member.heard)
        .collect();
    let removed: Vec<_> = controller.removed().collect();
    format!("{:?}\n{words:?}\n{heard:?}\n{removed:?}\n{:?}", controller.status(), controller.remaining())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn services_that_rest_change_as_if_every_second_looked_at_them(steps in steps()) {
        let (mut one, mut other) = (scanty(), scanty());
        for service in 0..NAMES.len() {
            for controller in [&mut one, &mut other] {
                controller.add_service(small(service), Health::Unchecked).unwrap();
            }
        }
        for step in &steps {
            let came = step.take(&mut one, Controller::tick);
            let wanted = step.take(&mut other, |controller| {
                wake_all(controller);
                controller.tick()
            });
            prop_assert_eq!(came, wanted, "{:?}", step);
            wake_all(&mut other);
            prop_assert_eq!(seen(&one), seen(&other), "{:?}", step);
        }
    }
}

#[test]
fn a_service_rests_until_its_grace_and_its_idle_time_are_over_and_for_good_then() {
    let mut controller = controller();
    controller.add_service(small(0), Health::Up).unwrap();
    let awake = |controller: &Controller<Arc<Memory>>| controller.services.awake().count();
    pass_seconds(&mut controller, 1);
    assert_eq!(awake(&controller), 0);
    controller.set_health("api", "be1", Health::Down).unwrap();
    assert_eq!(awake(&controller), 1);
    pass_seconds(&mut controller, 1);
    assert_eq!(awake(&controller), 0, "its slots are not settled, but nothing is due");
    assert!(pass_seconds(&mut controller, 12).settled > 0);
    controller.set_admin("api", "be2", Admin::Draining).unwrap();
    pass_seconds(&mut controller, 30);
    assert_eq!(awake(&controller), 1, "what a backend gets that drains is noted every second");
    controller.set_admin("api", "be2", Admin::Active).unwrap();
    pass_seconds(&mut controller, 30);
    assert_eq!(awake(&controller), 0);
}
