//! Protocols in pairs over the simulated network: one executable, so that what the tests share is
//! built and linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod admission;
mod bwdelaytester;
mod capacity;
mod client;
mod ctstraffic;
mod damage;
mod data;
mod datagrams;
mod delay;
mod discard;
mod draws;
mod dying;
mod echo;
mod endings;
mod hostile;
mod iperf3;
mod iperf3_vectors;
mod keys;
mod liar;
mod long;
mod matrix;
mod media;
mod mutation;
mod mutation_ctstraffic;
mod mutation_iperf3;
mod native_vectors;
mod ntttcp;
mod one_sided;
mod openings;
mod pace;
mod pending;
mod ping;
mod processes;
mod properties;
mod rates;
mod reach;
mod resume;
mod servers;
mod session;
mod stamp;
mod stream;
mod support;
mod tail;
mod tcpmon;
mod train;
mod trouble;
mod ttcp;
mod ttcp_udp;
mod udpmon;
mod udpstp;
