//! Hosts without an agent, which run another program's server and take part as targets; and the
//! reports of a real run.

use crate::support::files::Scratch;
use crate::support::fleet::{PING, all_measured, ended, last_run, testing};
use crate::support::iperf3;
use crate::support::{BIN, Line, Proc, as_it_is, netcaliper};

/// A host with an agent, on loopback, and others without.
struct Fleet(Scratch);

impl Fleet {
    fn new(hosts: &str) -> Fleet {
        let scratch = Scratch::new();
        std::fs::write(scratch.file("hosts"), format!("a address=127.0.0.1\n{hosts}")).unwrap();
        Fleet(scratch)
    }

    fn run(&self, class: &str, test: &str) -> Line {
        let resource = format!("--agent-option=--resource={}", self.0.file("").display());
        let line = as_it_is("fleet").arg("run").arg(self.0.file("hosts")).arg("--rsh").arg("env HOST={}");
        let line = line.arg("--program").arg(BIN).arg(resource).args("--agent-option=--port=0");
        let line = line.env("XDG_STATE_HOME", self.0.file("state"));
        testing(line, class, test)
    }
}

#[test]
fn a_real_iperf3_server_is_a_target_in_both_directions() {
    let name = "fleet_passive::a_real_iperf3_server_is_a_target_in_both_directions";
    let Some((_server, port)) = iperf3::real(name, |line| line.args("-B 127.0.0.1")) else { return };
    let fleet = Fleet::new(&format!("target address=127.0.0.1 port={port} protocol=iperf3\n"));
    let html = fleet.0.file("matrix.html");
    let done = fleet.run("exclusive", "tcp -t 1s -b 10M").arg("--html").arg(&html).run().exits(0);
    all_measured(&fleet.0.file("state"), 2);
    assert!(done.out.contains("goodput"), "{}", done.out);
    assert!(std::fs::read_to_string(html).unwrap().contains("target"));
}

#[test]
fn a_stamp_reflector_is_a_target_and_two_of_them_have_no_way() {
    let test = "fleet_passive::a_stamp_reflector_is_a_target_and_two_of_them_have_no_way";
    let peer = || crate::support::peer::peer("stamp.py", test, "reflector 127.0.0.1 0");
    let (Some(one), Some(two)) = (peer(), peer()) else { return };
    let host =
        |name: &str, of: &Proc| format!("{name} address=127.0.0.1 port={} protocol=stamp\n", of.port());
    let fleet = Fleet::new(&(host("one", &one) + &host("two", &two)));
    // What could be measured was.
    let done = fleet.run("background", PING).run();
    let count = |how: &str| ended(&fleet.0.file("state"), how);
    assert_eq!((count("measured"), count("unreachable_by_design")), (4, 2), "{}", done.tell());
}

#[test]
fn a_server_of_ctstraffic_is_a_target() {
    let server = as_it_is("serve").args("--listen 127.0.0.1 --port 0 --legacy ctstraffic:0").spawn();
    let port = server.port_of("ctstraffic");
    let fleet = Fleet::new(&format!("target address=127.0.0.1 port={port} protocol=ctstraffic\n"));
    // Pushed to such a server payload arrives; it sends none.
    fleet.run("exclusive", "tcp -t 1s -b 10M").run().exits(4);
    let count = |how: &str| ended(&fleet.0.file("state"), how);
    assert_eq!((count("measured"), count("failed")), (1, 1));
}

#[test]
fn a_report_leads_to_the_page_of_each_pair_and_keeps_the_outcomes() {
    let fleet = Fleet::new("b address=127.0.0.1\n");
    fleet.run("background", PING).run().exits(0);
    let run = last_run(&fleet.0.file("state")).unwrap();
    let (html, store) = (fleet.0.file("matrix.html"), fleet.0.file("store"));
    let report = || {
        let line = netcaliper("fleet").arg("report").arg(&run).args("--keep --html").arg(&html);
        let line = line.arg("--pages").arg(fleet.0.file("pairs")).arg("--store").arg(&store);
        line.arg("--metrics-file").arg(fleet.0.file("fleet.prom")).run().exits(0)
    };
    report();
    let matrix = std::fs::read_to_string(&html).unwrap();
    let pages: Vec<String> = std::fs::read_dir(fleet.0.file("pairs"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(pages.len(), 2);
    for page in &pages {
        assert!(matrix.contains(&format!("pairs/{page}")), "the matrix does not lead to {page}");
        let page = std::fs::read_to_string(fleet.0.file("pairs").join(page)).unwrap();
        assert!(page.contains("<svg") && page.contains("ping"), "{page:.200}");
    }
    assert!(std::fs::read_to_string(fleet.0.file("fleet.prom")).unwrap().contains("from=\"a\",to=\"b\""));
    // Once more: each is kept once.
    report();
    let history = netcaliper("history").arg("--store").arg(&store).arg("--json").run().exits(0);
    for page in &pages {
        let id = page.trim_end_matches(".html");
        assert_eq!(history.out.matches(id).count(), 1, "{id}: {}", history.out);
    }
}
