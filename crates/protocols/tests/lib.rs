//! Tests of the protocols, in pairs over the simulated network: one executable (`tests/it/`),
//! because each that links the engine and the simulator again would cost as much as all tests of a
//! protocol.
