use super::*;
use crate::compat::line::{Slice, layout};
use model::Level;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Disk(Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>);

struct Handle(Disk, PathBuf);

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().entry(self.1.clone()).or_default().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk {
    fn logs(&self, asked: &LogFiles, transport: Transport) -> Logs {
        let disk = self.clone();
        let mut open =
            |path: &Path| Ok(Box::new(Handle(disk.clone(), path.to_owned())) as Box<dyn Write + Send>);
        Logs::open(asked, transport, &mut open).unwrap()
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        self.0.lock().unwrap().get(Path::new(path)).cloned().unwrap_or_default()
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }
}

fn items() -> Vec<Item> {
    vec![
        Item::Banner(vec!["banner".to_owned()]),
        Item::Started("started".to_owned()),
        Item::Established("up".to_owned()),
        Item::Connection {
            line: "line".to_owned(),
            row: "row".to_owned(),
            tcp_info: Some("info".to_owned()),
        },
        Item::Error("error".to_owned()),
        Item::Message { at: "1.000".to_owned(), text: "oh".to_owned(), level: Level::Error },
        Item::Status(Slice { at_ms: 5000, numbers: [1, 2, 3, 4, 5, 6] }),
        Item::Summary(vec!["summary".to_owned()]),
    ]
}

fn write_items(logs: &mut Logs) {
    for item in items() {
        assert_eq!(logs.write(&item), [""; 0]);
    }
}

#[test]
fn tables_have_header_and_rows_only() {
    let disk = Disk::default();
    let asked = LogFiles {
        status: Some("s.csv".into()),
        connection: Some("c.CSV".into()),
        jitter: Some("j.csv".into()),
        tcp_info: Some("t.csv".into()),
        ..LogFiles::default()
    };
    let mut logs = disk.logs(&asked, Transport::Tcp);
    assert_eq!(disk.text("c.CSV").lines().count(), 1, "the header is there before the run");
    write_items(&mut logs);
    logs.write(&Item::Jitter(vec!["1,2".to_owned(), "2,3".to_owned()]));
    // The headers character by character, from the notes on ctsTraffic.
    assert_eq!(
        disk.text("s.csv"),
        "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError\r\n5.000,1,2,3,4,5,6\r\n"
    );
    assert_eq!(
        disk.text("c.CSV"),
        "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId\r\nrow\r\n"
    );
    assert_eq!(
        disk.text("j.csv"),
        "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,RelativeInFlightTimeMs,\
         PrevToCurrentInFlightTimeJitter\r\n1,2\r\n2,3\r\n"
    );
    assert_eq!(
        disk.text("t.csv"),
        "TimeSlice,LocalAddress,RemoteAddress,ConnectionId,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,BytesReordered,\
         BytesRetransmitted,SynRetransmitted,DupAcksIn,MinRttUs,Mss,TimeoutEpisodes,FastRetransmit,SndLimBytesCwnd,\
         SndLimBytesRwin,SndLimBytesSnd\r\ninfo\r\n"
    );
}

#[test]
fn streams_have_headers_of_their_own() {
    let disk = Disk::default();
    let asked =
        LogFiles { status: Some("s.csv".into()), connection: Some("c.csv".into()), ..LogFiles::default() };
    disk.logs(&asked, Transport::Udp);
    assert_eq!(disk.text("s.csv"), "TimeSlice,Bits/Sec,Streams,Completed,Dropped,Repeated,Errors\r\n");
    assert_eq!(
        disk.text("c.csv"),
        "TimeSlice,LocalAddress,RemoteAddress,Bits/Sec,Completed,Dropped,Repeated,Errors,Result,ConnectionId\r\n"
    );
}

#[test]
fn one_text_file_may_hold_three_logs() {
    let disk = Disk::default();
    let one = Some(PathBuf::from("all.txt"));
    let asked = LogFiles { status: one.clone(), connection: one.clone(), error: one, ..LogFiles::default() };
    write_items(&mut disk.logs(&asked, Transport::Tcp));
    let text = disk.text("all.txt");
    let lines: Vec<&str> = text.split("\r\n").collect();
    let legend = lines.iter().position(|l| *l == "Legend:").unwrap();
    assert_eq!(lines[..legend], ["banner", "started"]);
    let header = layout(Transport::Tcp).heading;
    let from = lines.iter().position(|l| *l == header).unwrap();
    let status = "     5.000            1            2          3          4         5          6";
    assert_eq!(lines[from + 1..], ["up", "line", "error", "[1.000] oh", status, "summary", ""]);
}

#[test]
fn utf16_has_a_byte_order_mark() {
    let disk = Disk::default();
    let asked = LogFiles { error: Some("e.txt".into()), utf16: true, ..LogFiles::default() };
    let mut logs = disk.logs(&asked, Transport::Tcp);
    logs.write(&Item::Error("aé".to_owned()));
    logs.write(&Item::Pause);
    assert_eq!(disk.bytes("e.txt"), [0xff, 0xfe, b'a', 0, 0xe9, 0, b'\r', 0, b'\n', 0]);
}

#[test]
fn a_full_disk_is_told_once() {
    struct Full(u32);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 > 1 { Err(io::Error::other("no space")) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let asked = LogFiles { status: Some("s.csv".into()), ..LogFiles::default() };
    let mut open = |_: &Path| Ok(Box::new(Full(0)) as Box<dyn Write + Send>);
    let mut logs = Logs::open(&asked, Transport::Tcp, &mut open).unwrap();
    let status = Item::Status(Slice::default());
    assert_eq!(logs.write(&status), ["writing to s.csv failed: no space"]);
    assert_eq!(logs.write(&status), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let asked = LogFiles { error: Some("dir/e.txt".into()), ..LogFiles::default() };
    let mut open = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let why = Logs::open(&asked, Transport::Tcp, &mut open).err().unwrap();
    assert!(why.starts_with("cannot write to dir/e.txt: "), "{why}");
}
