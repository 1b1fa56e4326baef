use super::*;
use proptest::prelude::*;

fn read(text: &str, format: Format) -> Inventory {
    Inventory::parse(text, format).unwrap_or_else(|e| panic!("{e}"))
}

fn names(inventory: &Inventory) -> Vec<&str> {
    inventory.hosts.iter().map(|host| host.name.as_str()).collect()
}

/// The groups with limits that a test between these hosts uses: each group is looked at.
pub(crate) fn used(inventory: &Inventory, from: HostId, to: HostId) -> Vec<(&str, &Group)> {
    let is_used = |group: &Group| {
        let [a, b] = [from, to].map(|host| group.members.contains(&host));
        group.limit.is_some() && if group.crossing { a != b } else { a || b }
    };
    let groups = inventory.groups.iter().filter(|(_, group)| is_used(group));
    groups.map(|(name, group)| (name.as_str(), group)).collect()
}

fn refused(text: &str, format: Format) -> String {
    Inventory::parse(text, format).unwrap_err()
}

#[test]
fn a_plain_list_has_labels_ports_and_ranges() {
    let text = "# our hosts\nlab1 site=a rack=7\nlab[2:4]:7500 groups=wan,edge # three\n[fe80::1%eth0]:9\n";
    let scoped = read(text, Format::Lines);
    assert_eq!((names(&scoped)[4], scoped.hosts[4].port), ("fe80::1%eth0", Some(9)));
    let inventory = read(&text.replace("[fe80::1%eth0]:9", "[2001:db8::1]:9\n::1"), Format::Lines);
    assert_eq!(names(&inventory), ["lab1", "lab2", "lab3", "lab4", "2001:db8::1", "::1"]);
    assert_eq!(inventory.hosts[0].label("rack"), Some("7"));
    let ports: Vec<_> = inventory.hosts.iter().map(|host| host.port).collect();
    assert_eq!(ports, [None, Some(7500), Some(7500), Some(7500), Some(9), None]);
    assert_eq!(inventory.groups["wan"].members, [HostId(1), HostId(2), HostId(3)]);
    assert_eq!(inventory.groups["wan"].limit, None);
}

#[test]
fn ansible_ini_resolves_children_and_precedence() {
    // Precedence as in Ansible's manual, "How variables are merged": all, parent, child, host.
    let text = "solo\n[web]\nw[01:03].example.org:2222 ansible_password='a b' rack=1\n[db]\ndb-[a:b] ansible_host=10.0.0.5 \n\
                [prod:children]\nweb\ndb\n[prod:vars]\nsite = berlin\nrack=9\nnetcaliper_limit=2\n\
                [web:vars]\nnetcaliper_port=7500\nsite=\"kiel\"\n[all:vars]\nsite=none\nnat=false\n";
    let inventory = read(text, Format::of("hosts", text));
    let named = |name: &str| inventory.hosts.iter().find(|host| host.name == name).unwrap();
    assert_eq!(inventory.hosts.len(), 6);
    let w = named("w02.example.org");
    assert_eq!((w.port, w.label("site"), w.label("rack")), (Some(7500), Some("kiel"), Some("1")));
    assert_eq!(w.labels.keys().collect::<Vec<_>>(), ["nat", "rack", "site"], "no password");
    let db = named("db-a");
    assert_eq!(
        (db.address.as_str(), db.label("site"), db.label("rack")),
        ("10.0.0.5", Some("berlin"), Some("9"))
    );
    assert_eq!(named("solo").label("site"), Some("none"));
    assert!(!db.is_behind_nat());
    assert_eq!(inventory.groups["prod"].members.len(), 5);
    assert_eq!(inventory.groups["prod"].limit, Some(2));
    assert!(!inventory.groups.contains_key("all"));
}

#[test]
fn ansible_yaml_and_json_are_the_same_tree() {
    let yaml = "all:\n  vars: &v\n    site: berlin\n    nat: true\n  hosts:\n    one:\n    '007':\n      rack: 07\n  children:\n    \
                web:\n      hosts:\n        w[1:2]: {netcaliper_port: 7500, list: [1, 2]}\n      vars:\n        <<: *v\n        site: kiel\n";
    let json = r#"{"all": {"vars": {"site": "berlin", "nat": true}, "hosts": {"one": null, "007": {"rack": "07"}},
        "children": {"web": {"hosts": {"w[1:2]": {"netcaliper_port": 7500, "list": [1]}}, "vars": {"site": "kiel", "nat": true}}}}}"#;
    let (a, b) = (read(yaml, Format::of("x", yaml)), read(json, Format::of("x", json)));
    let sorted = |inventory: &Inventory| {
        let mut hosts = inventory.hosts.clone();
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        hosts
    };
    assert_eq!(sorted(&a), sorted(&b));
    let find = |name: &str| a.hosts.iter().find(|host| host.name == name).unwrap();
    assert_eq!(find("007").label("rack"), Some("07"));
    assert_eq!((find("w2").port, find("w2").label("site")), (Some(7500), Some("kiel")));
    assert!(find("one").is_behind_nat());
}

#[test]
fn ansible_inventory_list_has_its_variables_apart() {
    let text = r#"{"_meta": {"hostvars": {"a": {"ansible_host": "10.0.0.1", "rack": 3}}},
        "all": {"children": ["ungrouped", "web"]}, "web": {"hosts": ["a", "b"]}}"#;
    let inventory = read(text, Format::Json);
    assert_eq!(names(&inventory), ["a", "b"]);
    assert_eq!(
        (inventory.hosts[0].address.as_str(), inventory.hosts[0].label("rack")),
        ("10.0.0.1", Some("3"))
    );
}

#[test]
fn file_sd_has_targets_with_labels_and_not_the_port_of_the_exporter() {
    let text = r#"[{"targets": ["a.example:9100", "[2001:db8::2]:9100"], "labels": {"site": "x", "__meta_y": "z", "netcaliper_port": "7412"}},
        {"targets": ["c"]}]"#;
    let inventory = read(text, Format::of("t", text));
    assert_eq!(names(&inventory), ["a.example", "2001:db8::2", "c"]);
    assert_eq!((inventory.hosts[0].port, inventory.hosts[2].port), (Some(7412), None));
    assert_eq!(inventory.hosts[1].labels.len(), 1);
    let yaml = "- targets: ['a:9100', b]\n  labels:\n    site: x\n";
    assert_eq!(names(&read(yaml, Format::of("t", yaml))), ["a", "b"]);
}

#[test]
fn a_name_means_its_addresses() {
    let found = ["10.0.0.2", "10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap()).to_vec();
    assert_eq!(names(&Inventory::of_name("svc", found).unwrap()), ["10.0.0.1", "10.0.0.2"]);
    assert!(Inventory::of_name("svc", Vec::new()).unwrap_err().contains("svc"));
}

#[test]
fn limits_choose_groups_labels_and_each_value_of_a_label() {
    let mut inventory = read("a rack=1 groups=wan\nb rack=1\nc rack=2\nd\n", Format::Lines);
    let limits: Vec<Limit> =
        ["wan:1", "rack=*:2:crossing", "all:9"].iter().map(|l| l.parse().unwrap()).collect();
    inventory.limit(&limits).unwrap();
    let used =
        |a, b| used(&inventory, HostId(a), HostId(b)).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(used(0, 1), ["all", "wan"]);
    assert_eq!(used(0, 2), ["all", "rack=1", "rack=2", "wan"]);
    assert_eq!(used(1, 3), ["all", "rack=1"]);
    for wrong in ["", "wan", "wan:0", ":1", "wan:x", "=:"] {
        assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
    }
    assert!(inventory.limit(&["nobody:1".parse().unwrap()]).is_err());
}

#[test]
fn the_client_runs_where_a_connection_can_begin() {
    let inventory = read(
        "open site=a\nhidden site=b nat=yes\nalso site=c nat=yes\nbeside site=b nat=yes\n",
        Format::Lines,
    );
    let client = |a, b| inventory.client(HostId(a), HostId(b)).map(|id| id.0);
    assert_eq!((client(0, 1), client(1, 0)), (Some(1), Some(1)));
    assert_eq!((client(1, 2), client(2, 1)), (None, None));
    assert_eq!((client(1, 3), client(3, 1)), (Some(1), Some(3)));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    assert_eq!(refused("a\na\n", Format::Lines), "line 2: host a is listed twice");
    assert_eq!(
        refused("a site\n", Format::Lines),
        "line 1: \"site\": expected NAME=VALUE, such as address=192.0.2.1"
    );
    assert_eq!(
        refused("-oProxy=x\n", Format::Lines),
        "line 1: \"-oProxy=x\" is no name or address of a host"
    );
    assert_eq!(refused("# none\n", Format::Lines), "the inventory has no host");
    assert_eq!(refused("a:70000\n", Format::Lines), "line 1: \"70000\" is no port: expected 1 to 65535");
    assert!(refused("[x:y]\n", Format::Lines).contains("expected :children or :vars"));
    assert!(
        refused("[a:children]\nb\n[b:children]\na\n[a]\nh\n", Format::Lines).contains("contain each other")
    );
    assert!(refused("all: [1", Format::Yaml).starts_with("the YAML is damaged"));
    assert!(refused("7", Format::Json).contains("expected"));
}

#[test]
fn what_is_too_large_is_refused_early() {
    assert!(refused("h[1:20001]", Format::Lines).contains("expected a range"));
    assert!(refused("h[1:200][1:200]", Format::Lines).contains("more than 20000 hosts"));
    let many = (0..=MAX_HOSTS).map(|n| format!("h{n}\n")).collect::<String>();
    assert!(refused(&many, Format::Lines).contains("more than 20000 hosts"));
    let labels = (0..=MAX_LABELS).map(|n| format!(" l{n}=x")).collect::<String>();
    assert!(refused(&format!("a{labels}"), Format::Lines).contains("labels"));
    assert!(refused(&"x".repeat(300), Format::Lines).contains("253"));
    // Each level is nine times the one before: 9^9 values of text that is 500 bytes long.
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..10 {
        bomb += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(","));
    }
    assert!(refused(&bomb, Format::Yaml).contains("values"));
    assert!(refused(&"[".repeat(5_000), Format::Yaml).starts_with("the YAML is"));
    let deep = (0..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>();
    assert!(refused(&deep, Format::Yaml).contains("deep"));
    assert!(refused(&format!("{{\"a\":{}", "[".repeat(5_000)), Format::Json).contains("damaged"));
}

/// Generated cases of a property: `./test` takes the first number, and `bench/deep` the second.
pub(crate) fn cases(usual: u32, deep: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if std::env::var_os("NETCALIPER_DEEP").is_some() { deep } else { usual })
}

/// Words that inventories are made of, and any text.
fn piece() -> impl Strategy<Value = String> {
    const KNOWN: &str = "[web]\n~[web:children]\n~[web:vars]\n~all:\n~  hosts:\n~    a:\n~children~vars~: ~- ~targets: [a, b]\n~\
        &x ~*x~<<: ~{~}~[~]~\"~'~#~=~\n~ ~h[1:3]~[a:c:2]~netcaliper_limit=1\n~,~\t~!!str ~|\n~? ~---\n";
    let known: Vec<&str> = KNOWN.split('~').collect();
    prop_oneof![4 => proptest::sample::select(known).prop_map(str::to_owned), 1 => "\\PC{0,6}", 1 => "[a-z0-9]{1,4}"]
}

proptest! {
    #![proptest_config(cases(150, 5_000))]

    #[test]
    fn no_text_makes_a_parser_panic(pieces in proptest::collection::vec(piece(), 0..40)) {
        let text = pieces.concat();
        for format in [Format::Lines, Format::Yaml, Format::Json, Format::of("x", &text)] {
            if let Ok(inventory) = Inventory::parse(&text, format) {
                prop_assert!(inventory.hosts.len() <= MAX_HOSTS);
                let ids = inventory.groups.values().flat_map(|group| &group.members);
                prop_assert!(ids.copied().all(|id| inventory.host(id).is_some()));
                // What is read can be written and read again.
                let json = serde_json::to_string(&inventory).unwrap();
                prop_assert_eq!(serde_json::from_str::<Inventory>(&json).unwrap(), inventory);
            }
        }
        let _ = text.parse::<Limit>();
        let _ = text.parse::<Selector>();
    }
}
