use super::*;
use model::{Direction, Point};
use rusqlite::Connection;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netcaliper-store-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("deep").join("runs.sqlite")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(started: i64, goodput_bps: f64) -> Outcome {
    let mut outcome =
        Outcome { schema: model::SCHEMA.to_owned(), status: Status::Complete, ..Outcome::default() };
    outcome.begin.verb = "tcp".to_owned();
    outcome.begin.targets = vec!["one.example".to_owned(), "two.example".to_owned()];
    outcome.begin.started = Wall(started);
    let up = Some(Direction { goodput_bps, ..Direction::default() });
    outcome.points = vec![Point { up, status: Status::Complete, repeat: 1, ..Point::default() }];
    outcome
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_a_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = Folder::new();
    let path = folder.file();
    Store::open(&path).unwrap().keep(&run(5, 1e9), "").unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    // A user who shares a store has chosen to.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    Store::open(&path).unwrap().keep(&run(6, 1e9), "").unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn what_is_kept_comes_back() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.file()).unwrap();
    let outcome = run(5, 1e9);
    assert_eq!(store.keep(&outcome, "").unwrap(), 1);
    drop(store);
    let store = Store::existing(&folder.file()).unwrap();
    assert_eq!(store.outcome(1).unwrap(), outcome);
    assert_eq!(store.latest().unwrap(), Some(1));
    let listed = store.list(&Query::default()).unwrap();
    let goodput = listed[0].figures.iter().find(|f| f.name == "goodput.up").unwrap();
    assert_eq!((goodput.value, goodput.unit.as_str(), goodput.repeat), (1e9, "bps", 1));
    assert_eq!(listed[0].targets, "one.example two.example");
    assert!(matches!(store.outcome(7), Err(StoreError::NoRun { id: 7, .. })));
}

#[test]
fn runs_are_found_by_what_they_are() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.file()).unwrap();
    for started in 1..=4 {
        store.keep(&run(started, 1.0), "").unwrap();
    }
    let found = |query: Query| store.list(&query).unwrap().iter().map(|e| e.id).collect::<Vec<_>>();
    assert_eq!(found(Query { most: Some(2), ..Query::default() }), [4, 3]);
    assert_eq!(found(Query { since: Some(Wall(3)), ..Query::default() }), [4, 3]);
    assert_eq!(found(Query { until: Some(Wall(3)), ..Query::default() }), [2, 1]);
    assert_eq!(found(Query { verb: Some("ping".to_owned()), ..Query::default() }), [0i64; 0]);
    assert_eq!(found(Query { target: Some("two.".to_owned()), ..Query::default() }).len(), 4);
}

#[test]
fn what_is_beyond_the_retention_goes_and_numbers_are_not_given_again() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.file()).unwrap();
    let day = 86_400_000_000_000;
    for at in 0..6 {
        store.keep(&run(at * day, 1.0), "").unwrap();
    }
    let ids = |store: &Store| store.list(&Query::default()).unwrap().iter().map(|e| e.id).collect::<Vec<_>>();
    assert_eq!(store.retain(&Retention::parse("age=3d").unwrap()).unwrap(), 2);
    assert_eq!(ids(&store), [6, 5, 4, 3]);
    assert_eq!(store.retain(&Retention::parse("runs=2").unwrap()).unwrap(), 2);
    assert_eq!(store.keep(&run(6 * day, 1.0), "").unwrap(), 7);
    assert_eq!(ids(&store), [7, 6]);
    // One byte is less than any run: the latest stays all the same.
    assert_eq!(store.retain(&Retention::parse("size=1").unwrap()).unwrap(), 1);
    assert_eq!(ids(&store), [7]);
    assert!(matches!(store.forget(&[7, 99]), Err(StoreError::NoRun { id: 99, .. })));
    assert_eq!(ids(&store), [7], "none goes where one is not there");
    assert_eq!(store.forget(&[7, 7]).unwrap(), 1);
    assert_eq!(store.keep(&run(0, 1.0), "").unwrap(), 8);
    let left: i64 =
        store.connection.query_row("SELECT count(*) FROM figure WHERE run <> 8", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0, "figures go with their run");
}

#[test]
fn trouble_is_one_sentence() {
    let folder = Folder::new();
    let path = folder.file();
    assert!(Store::existing(&path).unwrap_err().to_string().contains("no run was kept yet"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "this is no database, and long enough not to be taken for an empty one").unwrap();
    let told = Store::open(&path).unwrap_err().to_string();
    assert!(told.contains("is damaged") && told.contains("move it away"), "{told}");
    std::fs::remove_file(&path).unwrap();
    drop(Store::open(&path).unwrap());
    for (version, age) in [(1, "an earlier"), (9, "a later")] {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
        drop(connection);
        let told = Store::open(&path).unwrap_err().to_string();
        let build = format!("{age} build (its version is {version}, ");
        assert!(told.contains(&build) && told.contains("mv "), "{told}");
    }
}

#[test]
fn a_damaged_document_is_told() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.file()).unwrap();
    store.keep(&run(1, 1.0), "").unwrap();
    store.connection.execute("UPDATE document SET deflated = x'0102'", []).unwrap();
    assert!(matches!(store.outcome(1), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_full_store_changes_nothing() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.file()).unwrap();
    store.keep(&run(1, 1.0), "").unwrap();
    let pages: i64 = store.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    // SQLite then says what it says when the disk is full.
    let _: i64 =
        store.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |r| r.get(0)).unwrap();
    let mut large = run(2, 1.0);
    // Text that does not shrink: each word is another number.
    large.notices = (0..20_000u64).map(|n| n.wrapping_mul(6_364_136_223_846_793_005).to_string()).collect();
    let told = store.keep(&large, "").unwrap_err().to_string();
    assert!(told.contains("the disk is full"), "{told}");
    assert_eq!(store.list(&Query::default()).unwrap().len(), 1);
}
