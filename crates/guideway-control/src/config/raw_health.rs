//! The health block of the file, as it is written.

use schemars::JsonSchema;

use super::reader::{At, Field, FromSection, Section};
use super::value::{Bounded, OneOrMany, Time};
use super::words::{HealthKind, HealthVia};

/// From 100 ms to an hour.
pub(crate) type ProbeInterval = Time<100, 3_600_000>;

/// From 10 ms to a minute.
pub(crate) type ProbeTimeout = Time<10, 60_000>;

/// From nothing to a day.
pub(crate) type SlowStart = Time<0, 86_400_000>;

/// How backends are checked.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RawHealth {
    /// How a check asks. `tcp`: whether a connection opens; the backend's program is not told of it.
    #[schemars(required, with = "HealthKind")]
    pub(crate) kind: Option<At<HealthKind>>,
    /// The way that it takes. Default `tunnel`; `direct` for `exec`.
    pub(crate) via: Option<At<HealthVia>>,
    /// Time from one check to the next while nothing changes. Default `5s`.
    #[schemars(with = "Option<ProbeInterval>")]
    pub(crate) interval: Field<ProbeInterval>,
    /// The same while results contradict the verdict; no more than the interval. Those that decide whether a new backend takes
    /// flows come a second apart at most. Default `1s`, or the interval where that is shorter.
    pub(crate) recheck: Option<At<ProbeInterval>>,
    /// How long an answer may take; no more than the interval. Default `1s`, or the interval where that is shorter.
    pub(crate) timeout: Option<At<ProbeTimeout>>,
    /// Successes in a row that bring a backend up. Default 2.
    pub(crate) rise: Option<At<Bounded<1, 100>>>,
    /// Failures in a row that take a backend down. Default 3.
    pub(crate) fall: Option<At<Bounded<1, 100>>>,
    /// How long it takes, after a recovery, to the full weight. Default `0s`: the full weight at once.
    pub(crate) slow_start: Option<At<SlowStart>>,
    /// The port that is asked. Default: the service's, which must be one number then.
    #[schemars(with = "Option<Bounded<1, 65_535>>")]
    pub(crate) port: Field<Bounded<1, 65_535>>,
    /// `http`, `https`: the host that is asked for. Default: the address.
    pub(crate) host: Option<At<String>>,
    /// `http`, `https`: the path that is asked for. Default `/`.
    pub(crate) path: Option<At<String>>,
    /// `http`, `https`: the statuses that are fine. Default 200.
    pub(crate) status: Option<At<OneOrMany<Bounded<100, 599>>>>,
    /// `http`, `https`: a text that the body must hold.
    pub(crate) body: Option<At<String>>,
    /// `https`: a file of certificates (PEM), of which one must have signed the backend's, which must be for `host` or
    /// else for the address. Default: any certificate is fine.
    pub(crate) ca_file: Option<At<String>>,
    /// `udp`: what is sent.
    pub(crate) send: Option<At<String>>,
    /// `udp`: what the answer must begin with. Default: any answer is fine.
    pub(crate) expect: Option<At<String>>,
    /// `exec`: the program and its arguments. The address and port are passed in the environment.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) command: Field<Vec<String>>,
}

impl FromSection for RawHealth {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            kind: section.required("kind", "\"tcp\""),
            via: section.field("via"),
            interval: section.told("interval"),
            recheck: section.field("recheck"),
            timeout: section.field("timeout"),
            rise: section.field("rise"),
            fall: section.field("fall"),
            slow_start: section.field("slow_start"),
            port: section.told("port"),
            host: section.field("host"),
            path: section.field("path"),
            status: section.field("status"),
            body: section.field("body"),
            ca_file: section.field("ca_file"),
            send: section.field("send"),
            expect: section.field("expect"),
            command: section.told("command"),
        }
    }
}
