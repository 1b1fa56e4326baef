//! CPU times of the machine, from `/proc/stat`, and the CPU's model, from `/proc/cpuinfo`.

use super::sys;
use crate::host::reading::{Machine, Ticks};

/// CPU times of the machine so far.
pub(in crate::host) fn machine() -> Option<Machine> {
    read(&std::fs::read_to_string("/proc/stat").ok()?, sys::ticks_per_second())
}

/// The lines `cpu` (all) and `cpuN` (CPUs that are online; numbers may be missing).
fn read(text: &str, ticks_per_second: u64) -> Option<Machine> {
    let mut machine = Machine { ticks_per_second, ..Machine::default() };
    let mut total = None;
    for line in text.lines().take_while(|line| line.starts_with("cpu")) {
        let (name, times) = line.split_once(' ')?;
        let ticks = ticks(times)?;
        match name.strip_prefix("cpu")? {
            "" => total = Some(ticks),
            number => _ = machine.cpus.insert(number.parse().ok()?, ticks),
        }
    }
    machine.total = total?;
    Some(machine)
}

/// user nice system idle iowait irq softirq steal guest guest_nice; the last two are in the first
/// two already.
fn ticks(times: &str) -> Option<Ticks> {
    let mut fields = times.split_ascii_whitespace().map_while(|field| field.parse::<u64>().ok());
    let mut next = || fields.next();
    let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
    // Fields later than Linux 2.4; zero in environments that imitate it.
    let [iowait, irq, softirq, steal] = std::array::from_fn(|_| next().unwrap_or(0));
    let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
    Some(Ticks { busy, idle: idle.saturating_add(iowait), softirq, steal })
}

/// The CPU's model, or the kernel's text in its place.
pub(super) fn model() -> Option<String> {
    model_of(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// Of lines `name : value`, one block per CPU, and on some machines one for all: the first CPU's
/// stand first.
fn model_of(text: &str) -> Option<String> {
    let field = |wanted: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let value = fields.find(|(name, _)| name.trim() == wanted)?.1.trim();
        (!value.is_empty()).then_some(value)
    };
    // x86 and 32-bit Arm; MIPS; POWER; RISC-V; s390 and LoongArch.
    let names = ["model name", "cpu model", "cpu", "uarch", "Model Name"];
    let named = names.iter().find_map(|name| field(name)).map(str::to_owned);
    // 64-bit Arm names neither: the numbers of the CPU's maker and of its design (0x41, 0xd0c: Arm,
    // Neoverse N1).
    named.or_else(|| Some(format!("Arm {} part {}", field("CPU implementer")?, field("CPU part")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// /proc/stat of the test machine (2 CPUs, Linux 6.18.44), the `intr` line shortened.
    const STAT: &str = "\
cpu  5671 13409 3981 270890 479 0 63 19 0 0
cpu0 2348 4633 1736 138455 60 0 15 7 0 0
cpu1 3323 8776 2245 132434 419 0 47 12 0 0
intr 278569 0 0 0
ctxt 468322
btime 1795155586
processes 7659
procs_running 1
procs_blocked 0
softirq 192949 0 24823 4 13205 75148 0 363 41142 0 38264
";

    #[test]
    fn reads_all_cpus_and_each() {
        let machine = read(STAT, 100).unwrap();
        assert_eq!(
            machine.total,
            Ticks { busy: 5671 + 13409 + 3981 + 63, idle: 270_890 + 479, softirq: 63, steal: 19 }
        );
        assert_eq!(machine.cpus.keys().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(
            machine.cpus[&1],
            Ticks { busy: 3323 + 8776 + 2245 + 47, idle: 132_434 + 419, softirq: 47, steal: 12 }
        );
    }

    #[test]
    fn cpus_that_are_off_leave_a_gap() {
        let machine = read("cpu  3 0 0 9\ncpu0 1 0 0 4\ncpu2 2 0 0 5\n", 100).unwrap();
        assert_eq!(machine.cpus.keys().copied().collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn texts_that_are_cut_or_nonsense_are_absent_not_zero() {
        for text in
            ["", "cpu", "cpu ", "cpu  1 2 3", "cpu  a b c d", "cpux 1 2 3 4", "intr 1 2", "cpu0 1 2 3 4"]
        {
            assert_eq!(read(text, 100), None, "{text:?}");
        }
        for cut in 0..STAT.len() {
            let _any = read(&STAT[..cut], 100);
        }
    }

    #[test]
    fn the_model_of_an_x86_and_of_an_arm() {
        // /proc/cpuinfo of the test machine, the lines that matter and similar ones.
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n\
            model name\t: Intel(R) Xeon(R) Processor\ncpu MHz\t\t: 2300.000\npower management:\n\n\
            processor\t: 1\nmodel name\t: another\n";
        assert_eq!(model_of(x86).as_deref(), Some("Intel(R) Xeon(R) Processor"));
        // Of an AWS Graviton 2.
        let arm = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
            CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n";
        assert_eq!(model_of(arm).as_deref(), Some("Arm 0x41 part 0xd0c"));
        for none in ["", "\n", "model name", "model name\t:\n", "processor\t: 0\nCPU part\t: 0xd0c\n"] {
            assert_eq!(model_of(none), None, "{none:?}");
        }
        for cut in 0..x86.len() {
            let _any = model_of(&x86[..cut]);
        }
    }
}
