//! From the command line to a core with a forwarder: reading what was left by an earlier daemon.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Instant, SystemTime};

use guideway_control::Engine;
use guideway_control::config::{self, Config, Source};
use guideway_control::controller::{Controller, DriftKind, from_config};
use guideway_control::drain::{self, Drains};
use guideway_control::health::Board;
use guideway_forward::record::flow::ENTRIES;
use guideway_xdp::attach::Mode;
use guideway_xdp::peer::unfinished_by_peer;

use crate::api::model::ConfigStatus;
use crate::api::view::stamp;
use crate::audit::Audit;
use crate::core::{About, Core};
use crate::drift;
use crate::engine::Plane;
use crate::error::RunError;
use crate::forwarder::{Forwarder, Loaded};
use crate::journal::{Grade, Journal, Kind};
use crate::kept::Kept;
use crate::limits;
use crate::names::Names;
use crate::options::Options;
use crate::patience::Patience;
use crate::store::{History, LastGood, Store, as_kept};
use crate::tunnel_probes::TunnelProbes;

/// A daemon that is ready to work.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) core: Core,
    pub(crate) forwarder: Forwarder,
    pub(crate) probes: Option<TunnelProbes>,
    pub(crate) store: Store,
    /// What the configuration was read from.
    pub(crate) source: Source,
    /// What restarts and rollbacks need.
    pub(crate) kept: Kept,
    /// The names that services have had.
    pub(crate) names: Names,
    /// Whether the forwarder is that of an earlier daemon.
    pub(crate) taken_over: bool,
    /// What is left of the time for an earlier daemon to let go.
    pub(crate) patience: Patience,
}

/// Starts the forwarder, or takes over the one of an earlier daemon, with the configuration and what is remembered.
pub(crate) fn start(options: &Options) -> Result<Started, RunError> {
    let mut patience = Patience::new();
    let mut store = Store::open(&options.state, &mut patience)?;
    let mut journal = Journal::default();
    let last_good = store.config().map_err(crate::StoreError::from)?;
    // Before anything else can fail, so that it is told in any case.
    let mut faults = told_set_aside(&mut store, &mut journal);
    let (source, config, stale) = configuration(&options.config, last_good.as_ref())?;
    let mut overrides = store.overrides().map_err(crate::StoreError::from)?.unwrap_or_default();
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let (mut board, forgotten) = match store.health() {
        Ok(Some(remembered)) => (Board::restore(seed, remembered.snapshot, remembered.away), None),
        Ok(None) => (Board::new(seed), None),
        // Verdicts are found anew in seconds, so a file that cannot be read is no reason not to start.
        Err(error) => (Board::new(seed), Some(error.to_string())),
    };
    let (mut drains, drains_forgotten) = match store.drains() {
        Ok(drains) => (drains, None),
        // The worst that can come of it is that a drain lasts longer.
        Err(error) => (drain::Snapshot::default(), Some(error.to_string())),
    };
    let (history, history_forgotten) = match store.history() {
        Ok(history) => (history, None),
        // The configuration in force does not need it.
        Err(error) => (History::default(), Some(format!("{error}; there is nothing to go back to"))),
    };
    let (mut names, names_forgotten) = match store.names() {
        Ok(names) => (names, None),
        // The worst that can come of it is that what was remembered of a renamed service is not found.
        Err(error) => (Names::default(), Some(error.to_string())),
    };
    faults.extend(told_set_aside(&mut store, &mut journal));
    faults.extend(names_forgotten.inspect(|text| journal.note(Grade::Error, Kind::State, text.clone())));
    faults.extend(history_forgotten.inspect(|text| journal.note(Grade::Error, Kind::State, text.clone())));
    let given = !options.interfaces.is_empty();
    let interfaces = if given { &options.interfaces } else { &config.daemon.interfaces }.clone();
    let loaded = Loaded::load(&options.engine, &interfaces, limits::of(&config), &mut patience)?;
    let (plane, taken_over) = (loaded.plane().clone(), loaded.taken_over);
    let before = last_good.as_ref().and_then(|last| config::parse(&last.source()).ok());
    // What is remembered may be under names that were on trial, and the file may have been changed since.
    let to_last = names.towards(before.as_ref().unwrap_or(&config));
    let by_file = before.as_ref().map(|before| config::renamed(before, &config)).unwrap_or_default();
    if !by_file.is_empty() {
        names.note(&by_file);
        faults.extend(store.write_names(&names).err().map(|error| error.to_string()));
    }
    for renames in [to_last, by_file].into_iter().filter(|renames| !renames.is_empty()) {
        overrides.rename(&renames);
        drains.rename(&renames);
        board.rename(&renames, Instant::now());
    }
    let controller = if taken_over {
        // An earlier daemon can have put the services of both into the forwarder.
        let before = before.as_ref().map(from_config::services).unwrap_or_default();
        let mut known = from_config::services(&config);
        known.extend_from_slice(&before);
        let mut controller = Controller::adopt_with(plane, &known, &drains)?;
        let age = last_good.as_ref().and_then(|last| SystemTime::now().duration_since(last.taken_at()).ok());
        let seconds = age.unwrap_or_default().as_secs().try_into().unwrap_or(u32::MAX);
        controller.note_configured_for(&before, seconds);
        controller
    } else {
        Controller::new(plane)
    };
    let probes = interfaces.first().map(|interface| TunnelProbes::start(interface));
    let mut about = about(loaded.plane(), probes.as_ref(), &source, stale.as_deref(), last_good.as_ref());
    about.interfaces_are_given = given;
    about.log = options.log.clone();
    about.faults.extend(other_flow_table(loaded.plane(), config.flow_table_entries));
    // One moment by both clocks, after all that takes time.
    let (now, wall) = (Instant::now(), SystemTime::now());
    let mut core = Core::new(config, controller, board, overrides, about, now);
    core.slack.note_text(source.text().len(), now);
    core.journal = journal;
    core.audit = Audit::restore(store.audit().recent());
    core.drains = Drains::restore(&drains, now, wall);
    if let Some(error) = drains_forgotten {
        let text = format!("{error}; the deadlines of drains under way begin anew");
        core.journal.note(Grade::Warning, Kind::State, text);
    }
    if let Some(error) = forgotten {
        core.journal.note(Grade::Warning, Kind::State, format!("{error}; all checks begin anew"));
    }
    if taken_over {
        core.journal.note(Grade::Info, Kind::Daemon, "took over the forwarder of an earlier daemon");
    }
    drift::note(&mut core, DriftKind::Settings, None, loaded.put_right);
    drift::note_repinned(&mut core, loaded.repinned);
    drift::note_removed(&mut core, &loaded.removed);
    for text in core.about.faults.clone() {
        core.journal.note(Grade::Warning, Kind::Daemon, text);
    }
    core.about.faults.extend(faults);
    if let Some(why) = &stale {
        let text = format!("{why}\nthe configuration that was taken last is used");
        core.journal.note(Grade::Error, Kind::Config, text);
    }
    core.begin(now).inspect_err(|_| loaded.discard())?;
    // No packet comes before there are tables.
    let forwarder = loaded.attach(&core.backends())?;
    core.about.interfaces = forwarder.ports().to_vec();
    for port in forwarder.ports() {
        let why = port.fell_back.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let grade = if port.fell_back.is_some() { Grade::Warning } else { Grade::Info };
        let text = format!("forwarding at {} in {} mode{why}", port.name, port.mode);
        core.journal.note(grade, Kind::Daemon, text);
        if port.mode == Mode::Native.as_str()
            && let Some((cause, remedy)) = unfinished_by_peer(port.index)
        {
            let text = format!("at {}, {cause}: {remedy}", port.name);
            core.journal.note(Grade::Warning, Kind::Daemon, text);
        }
    }
    for name in &forwarder.let_go {
        let text = format!(
            "nothing forwards at {name} any more: an earlier daemon did, and it is not among the interfaces now"
        );
        core.journal.note(Grade::Warning, Kind::Daemon, text);
    }
    let last = last_good.filter(|_| stale.is_some());
    let last = last.unwrap_or_else(|| LastGood::new(&source, core.about.taken_at));
    let mut kept = Kept::new(last, stale.is_none(), history);
    // A disk that is full stops no start: it is told, and written as soon as it can be.
    kept.save(&store, &mut core, now);
    let probes = probes.and_then(Result::ok);
    Ok(Started { core, forwarder, probes, store, source, kept, names, taken_over, patience })
}

fn about(
    plane: &Plane,
    probes: Option<&Result<TunnelProbes, guideway_xdp::Error>>,
    source: &Source,
    stale: Option<&str>,
    last_good: Option<&LastGood>,
) -> About {
    let now = SystemTime::now();
    let of_before = last_good.filter(|before| stale.is_some() || before.text == source.text());
    let taken_at = of_before.map_or_else(|| as_kept(now), LastGood::taken_at);
    About {
        started_at: now,
        taken_at,
        engine: plane.name(),
        interfaces: Vec::new(),
        interfaces_are_given: false,
        renamed: BTreeMap::new(),
        is_ending: false,
        config: ConfigStatus {
            source: source.name().to_owned(),
            taken_at: stamp(taken_at),
            last_reload_successful: stale.is_none(),
            last_reload_error: stale.map(str::to_owned),
            confirm_by: None,
        },
        socket: None,
        address: None,
        places: Vec::new(),
        log: None,
        tunnel_probes: matches!(probes, Some(Ok(_))),
        faults: match probes {
            Some(Err(error)) => vec![format!("{DIRECT_PROBES}: {error}")],
            _ => Vec::new(),
        },
    }
}

/// What to say where the flow table is not as large as was asked: a forwarder keeps the one that it was made with.
fn other_flow_table(plane: &Plane, asked: u32) -> Option<String> {
    let have = plane.flows().len() * ENTRIES;
    (have != asked as usize).then(|| {
        format!(
            "flow_table.entries is {asked}, and the forwarder that was taken over was made with {have}: end the daemon \
             with `--on-exit detach` and start it anew to change that"
        )
    })
}

/// What was set aside lately; it is told.
fn told_set_aside(store: &mut Store, journal: &mut Journal) -> Vec<String> {
    let texts = store.take_set_aside();
    for text in &texts {
        journal.note(Grade::Error, Kind::State, text.clone());
    }
    texts
}

/// What operators have to know where it is so.
const DIRECT_PROBES: &str =
    "checks ask the backends' own addresses and not through the tunnel, whatever `via` says";

/// The configuration of the file, or where that is bad the one that was taken last and why.
fn configuration(
    path: &Path,
    last_good: Option<&LastGood>,
) -> Result<(Source, Config, Option<String>), RunError> {
    let failed = match read(path) {
        Ok((source, config)) => return Ok((source, config, None)),
        Err(error) => error,
    };
    // It was taken by this program or an older one; if it is not understood any more, the file's problems are told.
    let before = last_good.map(LastGood::source);
    match before.map(|source| (config::parse(&source), source)) {
        Some((Ok(config), source)) => Ok((source, config, Some(failed.to_string()))),
        _ => Err(failed),
    }
}

/// Reads and checks a file.
pub(crate) fn read(path: &Path) -> Result<(Source, Config), RunError> {
    let source = config::load(path)?;
    match config::parse(&source) {
        Ok(config) => Ok((source, config)),
        Err(problems) => Err(RunError::Config(Box::new(problems))),
    }
}
