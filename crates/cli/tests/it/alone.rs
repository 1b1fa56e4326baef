//! Measurements against the lab's truth, which other tests beside them would disturb: `./test` runs
//! them by themselves.

mod delay_lab;
mod fair;
mod load_lab;
mod loss_lab;
