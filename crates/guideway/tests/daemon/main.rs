//! `guideway run` in a namespace of its own, with real clients and servers, real files and real signals.

mod api;
mod audit;
mod bed;
mod called;
mod change;
mod checks;
mod deadline;
mod drift;
mod kill;
mod life;
mod log;
mod manager;
mod metrics;
mod mode;
mod page;
mod pins;
mod pool;
mod reload;
mod rename;
mod request;
mod sizes;
mod trace;
mod traffic;
mod watch;
