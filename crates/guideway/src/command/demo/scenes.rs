//! The scenes.

use std::time::{Duration, Instant};

use guideway_control::counted;
use guideway_daemon::model::{Backend, Service};
use guideway_testbed::client::Progress;
use guideway_testbed::forwarder::Forwarder;

use super::books::{Packets, Scene};
use super::pace::Pace;
use super::stage::{Killed, Stage};
use super::world::{BACKENDS, SERVICE};
use crate::failure::Failure;

/// A scene's name in the report, and how it is played.
type Play<'a, F> = fn(&mut Stage<'a, F>) -> Result<(), Failure>;

/// Plays all of them.
pub(crate) fn play<F: Forwarder>(stage: &mut Stage<'_, F>, pace: &Pace) -> Result<(), Failure> {
    let scenes: [(&'static str, Play<'_, F>); 5] = [
        ("steady", steady),
        ("drain", drain),
        ("kill-backend", kill_backend),
        ("add-backend", add_backend),
        ("kill-daemon", kill_daemon),
    ];
    for (number, (scene, play)) in scenes.into_iter().enumerate() {
        let begin = Instant::now();
        stage.show = pace.show(number, begin);
        play(stage)?;
        stage.books.scenes.push(Scene { scene, seconds: begin.elapsed().as_secs_f64() });
    }
    stage.until_requests_are_over()?;
    stage.judge()?;
    let packets = Packets::of(&stage.world.daemon.metrics()?);
    stage.books.packets.add(&packets);
    Ok(())
}

fn steady<F: Forwarder>(stage: &mut Stage<'_, F>) -> Result<(), Failure> {
    stage.begin("1  Three backends, and clients that ask both virtual addresses", "")?;
    for backend in 1..=BACKENDS {
        stage.until_answers_of(&format!("be{backend}"))?;
    }
    stage.show(stage.show)
}

fn drain<F: Forwarder>(stage: &mut Stage<'_, F>) -> Result<(), Failure> {
    let name = "be2";
    stage.begin(
        "2  Drain a backend while it sends downloads: they finish, and nothing new comes",
        &format!("$ guideway drain {SERVICE} {name}"),
    )?;
    let on = |all: &[Progress]| all.iter().filter(|download| download.backend == name).count();
    stage.clients.download(stage.show + Duration::from_secs(1), |all| on(all) >= 2)?;
    let before = stage.ownership()?;
    stage.world.daemon.set_admin(SERVICE, name, "drain")?;
    stage.until_service("the drain", |service| slots(service, name) == 0)?;
    stage.moved(&format!("drain {name}"), &before)?;
    stage.until_requests_are_over()?;
    let answered = |stage: &Stage<'_, F>| stage.clients.seen().answered.get(name).copied();
    let then = answered(stage);
    stage.until("the end of the downloads", |stage| {
        Ok(stage.clients.downloads().iter().all(|download| download.end.is_some()).then_some(()))
    })?;
    let kept = answered(stage) == then;
    stage.books.promise("a backend that drains gets no new connection", kept);
    let drained = stage.clients.downloads();
    let whole = counted(on(&drained), "download", "downloads");
    stage.tell(&format!("{whole} from {name} came whole, none was cut"))?;
    let before = stage.ownership()?;
    stage.does(&format!("$ guideway ready {SERVICE} {name}"))?;
    stage.world.daemon.set_admin(SERVICE, name, "ready")?;
    stage.until_service("the end of the drain", |service| slots(service, name) > 0)?;
    stage.moved(&format!("ready {name}"), &before)?;
    stage.until_answers_of(name)?;
    stage.show(stage.show / 2)
}

fn kill_backend<F: Forwarder>(stage: &mut Stage<'_, F>) -> Result<(), Failure> {
    let (number, name) = (2, "be3");
    stage
        .begin("3  Kill a backend: its power fails, and the checks take it out", "# ip link set be3 down")?;
    let before = stage.ownership()?;
    stage.killed = Some(Killed {
        backend: name.to_owned(),
        owners: before.owners.clone(),
        at: Instant::now(),
        noticed: None,
    });
    stage.world.bed.kill_backend(number).map_err(Failure::failed)?;
    let service = stage.until_service("the verdict", |service| slots(service, name) == 0)?;
    let noticed = Instant::now();
    if let Some(killed) = &mut stage.killed {
        killed.noticed = Some(noticed);
        let after = noticed - killed.at;
        let reason =
            backend(&service, name).and_then(|b| b.health.as_ref()?.reason.clone()).unwrap_or_default();
        stage.tell(&format!("down after {:.1} s: {reason}", after.as_secs_f64()))?;
    }
    stage.moved(&format!("kill {name}"), &before)?;
    stage.until_requests_are_over()?;
    stage.show(stage.show)
}

fn add_backend<F: Forwarder>(stage: &mut Stage<'_, F>) -> Result<(), Failure> {
    stage.begin("4  Add a backend", "$ guideway apply guideway.toml")?;
    let before = stage.ownership()?;
    let name = stage.world.add_backend()?;
    stage.world.daemon.apply(&stage.world.config())?;
    stage.until_service("the new backend's first checks", |service| slots(service, &name) > 0)?;
    stage.moved(&format!("add {name}"), &before)?;
    stage.until_answers_of(&name)?;
    stage.show(stage.show)
}

fn kill_daemon<F: Forwarder>(stage: &mut Stage<'_, F>) -> Result<(), Failure> {
    stage.begin(
        "5  Kill the balancer's own daemon with kill -9, and start it again",
        "$ kill -9 $(pidof guideway)",
    )?;
    stage.clients.download(stage.show + Duration::from_secs(1), |all| all.len() >= 4)?;
    let before = stage.ownership()?;
    if !stage.kernel {
        // It takes its books along.
        let packets = Packets::of(&stage.world.daemon.metrics()?);
        stage.books.packets.add(&packets);
    }
    stage.world.daemon.kill()?;
    if stage.kernel {
        let total = stage.clients.seen().total();
        stage.until_requests_are_over()?;
        stage.show(stage.show / 2)?;
        let more = stage.clients.seen().total() - total;
        let more = counted(more, "request", "requests");
        stage.tell(&format!("{more} without a daemon: the kernel goes on forwarding"))?;
    } else {
        stage.tell("this engine forwards in the daemon, so clients send again what was lost meanwhile")?;
    }
    stage.does("$ guideway run")?;
    stage.world.daemon.start()?;
    stage.until("the daemon's first answer", |stage| Ok(stage.world.daemon.status().ok()))?;
    stage.until_requests_are_over()?;
    let change = stage.moved("kill -9 and a new start of the daemon", &before)?;
    stage.books.promise("a daemon that was killed comes back to the same table", change.moved == 0);
    stage.until("the end of the downloads", |stage| {
        Ok(stage.clients.downloads().iter().all(|download| download.end.is_some()).then_some(()))
    })
}

fn backend<'s>(service: &'s Service, name: &str) -> Option<&'s Backend> {
    service.backends.iter().find(|backend| backend.name == name)
}

fn slots(service: &Service, name: &str) -> u32 {
    backend(service, name).map_or(0, |backend| backend.slots)
}
