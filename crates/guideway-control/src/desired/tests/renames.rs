//! Services that another configuration calls otherwise.

use super::*;

fn called(name: &str, config: &Config) -> Config {
    let mut config = config.clone();
    config.services[0].name = name.to_owned();
    config
}

impl World {
    /// Takes a configuration in which one service has another name.
    fn take(&mut self, before: &Config, after: &Config) {
        let renames = config::renamed(before, after);
        self.desired.rename(&renames, &mut self.controller, &mut self.board, self.now);
        self.configure(after);
    }
}

#[test]
fn a_service_that_is_called_otherwise_keeps_its_table_verdicts_and_overrides() {
    let web = config(&[1; 4], "");
    let site = called("site", &web);
    let mut world = World::well(&web);
    world.overriding(|overrides| {
        overrides.set_admin(&of("web", "be2"), AdminState::Drain, None);
        // Of a service that there was before.
        overrides.set_admin(&of("site", "be1"), AdminState::Maintenance, None);
    });
    world.sick.insert(3);
    world.pass(20 * SECOND);
    let known = |world: &World, name: &str| {
        let of_each = ["be1", "be2", "be3", "be4"].map(|backend| {
            let who = of(name, backend);
            let status = world.board.status(&who, world.now).unwrap();
            // What is remembered is remembered by the wall clock, which is not virtual here.
            let age = Duration::from_secs_f64((world.now - status.since).as_secs_f64().round());
            (status.verdict, age, world.desired.overrides().of(&who).admin)
        });
        let slots = world.controller.table(name).unwrap().slots;
        let current: Vec<_> = slots.into_iter().map(|slot| slot.current).collect();
        (of_each, current, world.commits)
    };
    let before = known(&world, "web");
    assert_eq!([before.0[2].0, before.0[3].0], [Verdict::Down, Verdict::Up]);
    assert_eq!((before.0[0].2, before.0[1].2), (None, Some(AdminState::Drain)));
    world.take(&web, &site);
    assert_eq!(known(&world, "site"), before);
    assert!(world.controller.table("web").is_none() && world.desired.overrides().iter().count() == 1);
    // Its checks go on.
    world.sick.clear();
    world.pass(20 * SECOND);
    assert_eq!(world.board.verdict(&of("site", "be3")), Some(Verdict::Up));
    world.take(&site, &web);
    let (verdict, age, admin) = before.0[1];
    assert_eq!(known(&world, "web").0[1], (verdict, age + 20 * SECOND, admin));
}

#[test]
fn a_removed_backend_is_checked_on_where_its_service_is_called_otherwise() {
    let (four, three) = (config(&[1; 4], ""), config(&[1; 3], ""));
    let mut world = World::well(&four);
    let table = world.controller.table("web").unwrap();
    let slot = table.slots.iter().position(|slot| slot.current.as_deref() == Some("be4")).unwrap();
    world.remember(0, slot as u32, 3);
    world.configure(&three);
    world.follow_leaving();
    let since = |world: &World, name: &str| {
        world.board.status(&of(name, "be4@10.0.0.4"), world.now).map(|status| (status.verdict, status.since))
    };
    let before = since(&world, "web");
    assert!(before.is_some());
    let site = called("site", &three);
    let renames = config::renamed(&three, &site);
    world.pass(5 * SECOND);
    world.desired.rename(&renames, &mut world.controller, &mut world.board, world.now);
    // Who is checked is looked for before the new configuration is there, too.
    world.overriding(|overrides| overrides.set_admin(&of("site", "be1"), AdminState::Maintenance, None));
    world.configure(&site);
    assert_eq!(since(&world, "site"), before);
}
