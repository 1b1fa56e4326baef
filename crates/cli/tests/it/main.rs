//! The real binary, run as users run it: one executable, so that what the tests share is built and
//! linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

#[cfg(unix)]
mod admission;
#[cfg(target_os = "linux")]
mod allowance;
mod alone;
mod architecture;
#[cfg(target_os = "linux")]
mod blocked;
mod bwdelaytester;
#[cfg(unix)]
mod compare;
#[cfg(unix)]
mod conditions;
#[cfg(unix)]
mod control;
mod ctstraffic;
mod ctstraffic_guide;
mod ctstraffic_media;
#[cfg(unix)]
mod defaults;
#[cfg(unix)]
mod delay;
#[cfg(unix)]
mod disasters;
mod discard;
#[cfg(target_os = "linux")]
mod doctor;
mod drops;
mod echo;
mod ecn;
#[cfg(unix)]
mod endings;
#[cfg(unix)]
mod exchange;
#[cfg(all(unix, feature = "export"))]
mod export;
#[cfg(not(feature = "export"))]
mod export_absent;
#[cfg(unix)]
mod failures;
#[cfg(unix)]
mod faults;
#[cfg(not(feature = "fleet"))]
mod fleet_absent;
#[cfg(unix)]
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_agent;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_alerts;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_direct;
#[cfg(all(target_os = "linux", feature = "nats"))]
mod fleet_gone;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_lies;
#[cfg(all(target_os = "linux", feature = "nats"))]
mod fleet_nats;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_passive;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_rounds;
#[cfg(all(target_os = "linux", feature = "fleet"))]
mod fleet_run;
#[cfg(all(target_os = "linux", feature = "nats"))]
mod fleet_standby;
mod html;
mod iperf3;
#[cfg(feature = "iperf3-auth")]
mod iperf3_auth;
#[cfg(not(feature = "iperf3-auth"))]
mod iperf3_auth_absent;
mod iperf3_client;
mod iperf3_options;
#[cfg(target_os = "linux")]
mod keys;
mod lab;
mod legacy;
mod limits;
mod live;
#[cfg(target_os = "linux")]
mod matrix;
#[cfg(unix)]
mod metrics;
#[cfg(unix)]
mod mistaken;
#[cfg(unix)]
mod namespaces;
mod ntttcp;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod other_protocols;
#[cfg(unix)]
mod outputs;
#[cfg(unix)]
mod patterns;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(all(unix, feature = "export"))]
#[path = "../../../export/tests/it/server.rs"]
#[expect(dead_code, reason = "the tests of export use all of it")]
mod receiver;
#[cfg(unix)]
mod released;
#[cfg(all(unix, feature = "http"))]
mod scrapers;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod servers;
#[cfg(unix)]
mod settings;
#[cfg(target_os = "linux")]
mod signals;
mod stamp;
#[cfg(unix)]
mod store;
#[cfg(unix)]
mod stream;
mod support;
#[cfg(unix)]
mod sweep;
mod tcpmon;
#[cfg(target_os = "linux")]
mod train;
mod ttcp;
mod udpmon;
#[cfg(unix)]
mod udpstp;
mod unanswered;
#[cfg(all(unix, feature = "http"))]
mod web;
#[cfg(not(feature = "http"))]
mod web_absent;
#[cfg(all(unix, feature = "http"))]
mod web_legacy;
