// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Worlds whose ranks are processes that reach each other by TCP.
//!
//! Rank 0 listens at the *store*, an address that all ranks know. Every other rank connects to it, says its rank and
//! the port of its own listener, and gets the *table* of all ranks' listeners and a secret. That is all of the
//! bootstrap: N connections, and one message of N entries to each rank. The connections to the store stay open, so that
//! a rank whose process ends without leaving is noticed at once: rank 0 tells the others.
//!
//! A rank connects to another one when it sends the first frame to it. Such a connection has frames in one direction
//! only, behind a head with the secret. One thread of each rank reads all its connections.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::mailbox::Mailbox;
use super::world::{Frame, HEAD_BYTES, Key, Lane, Transport, World, arrive};
use amdgpu_ffi::{Result, Status, status, thread};

/// The first word of every connection, with the version of the protocol.
const MAGIC: u64 = u64::from_le_bytes(*b"AMDGPUR1");

/// Bytes of an entry of the table: an address and a port.
const ENTRY_BYTES: usize = 18;

/// Longest time for which rank 0 waits for a greeting on a new connection.
const GREETING: Duration = Duration::from_secs(5);

/// Longest time in which a connection to another rank is made.
const CONNECT: Duration = Duration::from_secs(20);

/// The pause between two attempts to reach a store that does not listen yet.
const RETRY: Duration = Duration::from_millis(20);

/// Payloads up to this are copied behind their head, so that one call sends both.
const SMALL: usize = 64 << 10;

/// Bytes on the connection to the store.
const LEAVE: u8 = b'L';
const DEAD: u8 = b'D';

/// A store that rank 0 has opened, and its address for the other ranks.
pub struct Store {
    listener: TcpListener,
    /// `host:port`.
    pub address: String,
}

impl Store {
    /// Opens a store at a free port of this machine's address towards other machines, or of loopback.
    ///
    /// # Errors
    /// UNAVAILABLE if the system gives no port.
    pub fn open() -> Result<Self> {
        let ip = own_address();
        let listener = TcpListener::bind((ip, 0)).map_err(|error| unreachable("opening a port at", &ip, &error))?;
        let address = listener.local_addr().map_err(|error| unreachable("reading the port of", &ip, &error))?;
        Ok(Self { listener, address: address.to_string() })
    }

    /// Opens a store at `address`.
    fn open_at(address: &str) -> Result<Self> {
        let resolved = resolve(address)?;
        // A name may stand for an address that this machine does not have itself.
        let any: IpAddr = if resolved.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let listener = TcpListener::bind(resolved).or_else(|error| match error.kind() {
            ErrorKind::AddrNotAvailable => TcpListener::bind((any, resolved.port())),
            _ => Err(error),
        });
        let listener = listener.map_err(|error| unreachable("rank 0 listening at", &address, &error))?;
        Ok(Self { listener, address: address.to_owned() })
    }
}

/// The address from which this machine reaches others. No packet is sent for it.
fn own_address() -> IpAddr {
    let probe = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // An address for documentation (RFC 5737): it only selects the route.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    };
    probe().map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let mut found = address.to_socket_addrs().map_err(|error| unreachable("resolving", &address, &error))?;
    found.next().ok_or_else(|| status!(UNAVAILABLE, "the name in {address} has no address"))
}

fn unreachable(action: &str, place: &dyn std::fmt::Display, error: &std::io::Error) -> Status {
    status!(UNAVAILABLE, "{action} {place} for collectives: {error}")
}

/// Joins the world whose store is at `address` as rank `rank` of `count`, and waits until all ranks have. `store` is
/// the opened store of rank 0, if it is open.
///
/// # Errors
/// UNAVAILABLE if the store cannot be opened or reached; DEADLINE_EXCEEDED if not all ranks came within `timeout`;
/// INVALID_ARGUMENT if ranks disagree on their number.
pub fn join(address: &str, store: Option<Store>, (rank, count): (u32, u32), timeout: Duration) -> Result<Arc<World>> {
    let deadline = Instant::now() + timeout;
    let joined = if rank == 0 {
        let store = store.map_or_else(|| Store::open_at(address), Ok)?;
        gather(&store.listener, count, deadline)
    } else {
        greet(address, (rank, count), deadline)
    }?;
    let mailbox = Arc::<Mailbox>::default();
    let transport = Tcp::start(joined, (rank, count), timeout, mailbox.clone())?;
    Ok(World::new((rank, count), timeout, mailbox, Box::new(transport)))
}

/// The result of the bootstrap.
struct Joined {
    /// Listens for frames.
    listener: TcpListener,
    /// The listeners of all ranks.
    table: Vec<SocketAddr>,
    secret: u64,
    /// The connections to the store: by rank on rank 0, and otherwise the one to rank 0.
    control: Vec<(u32, TcpStream)>,
}

/// Waits for a connection until `deadline`; none after it.
fn accept(listener: &TcpListener, deadline: Instant) -> std::io::Result<Option<(TcpStream, SocketAddr)>> {
    let mut ready = [poll_of(listener)];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if wait(&mut ready, Some(left))? {
            return listener.accept().map(Some);
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Rank 0: greets all other ranks and sends them the table.
fn gather(store: &TcpListener, count: u32, deadline: Instant) -> Result<Joined> {
    let failed = |action: &'static str| move |error: std::io::Error| unreachable(action, &"rank 0's store", &error);
    let own = store.local_addr().map_err(failed("reading the address of"))?;
    let listener = TcpListener::bind((own.ip(), 0)).map_err(failed("opening a port beside"))?;
    let port = listener.local_addr().map_err(failed("reading the port of"))?.port();
    let mut ranks: Vec<Option<(TcpStream, SocketAddr)>> = (0..count).map(|_| None).collect();
    let mut missing = count - 1;
    while missing > 0 {
        let Some((mut stream, address)) = accept(store, deadline).map_err(failed("accepting ranks at"))? else {
            let absent: Vec<_> = (1..count).filter(|rank| ranks[*rank as usize].is_none()).take(8).collect();
            return Err(status!(
                DEADLINE_EXCEEDED,
                "{missing} of {count} ranks have not reached rank 0's store, among them {absent:?} (option \
                 collective_timeout)"
            ));
        };
        // A connection without a rank's greeting is dropped.
        let Ok(Greeting { rank, count: says, port }) = Greeting::read(&mut stream) else { continue };
        if says != count {
            let text = format!("rank {rank} says that there are {says} ranks, rank 0 says {count}");
            let _ = reply(&mut stream, Err(&text));
            return Err(status!(INVALID_ARGUMENT, "{text}"));
        }
        match ranks.get_mut(rank as usize) {
            Some(place) if place.is_none() && rank > 0 => *place = Some((stream, SocketAddr::new(address.ip(), port))),
            _ => {
                let text = format!("rank {rank} of {count} has joined before, or is out of range");
                let _ = reply(&mut stream, Err(&text));
                continue;
            }
        }
        missing -= 1;
    }
    // The others know rank 0's address as the store's.
    let unspecified = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let others = ranks.iter().skip(1).flatten().map(|(_, address)| *address);
    let table: Vec<_> = std::iter::once(unspecified).chain(others).collect();
    let secret = secret();
    let message: Vec<u8> = secret.to_le_bytes().into_iter().chain(table.iter().flat_map(entry)).collect();
    let mut control = Vec::new();
    for (rank, place) in ranks.into_iter().enumerate() {
        let Some((mut stream, _)) = place else { continue };
        reply(&mut stream, Ok(&message)).map_err(failed("sending the table from"))?;
        control.push((rank as u32, stream));
    }
    Ok(Joined { listener, table, secret, control })
}

/// Another rank: greets rank 0 and gets the table.
fn greet(address: &str, (rank, count): (u32, u32), deadline: Instant) -> Result<Joined> {
    let failed = |action: &'static str| {
        move |error: std::io::Error| unreachable(action, &format!("rank 0's store at {address}"), &error)
    };
    let store = resolve(address)?;
    let mut stream = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(&store, left.min(CONNECT).max(Duration::from_millis(1))) {
            Ok(stream) => break stream,
            Err(error) if left.is_zero() => return Err(failed("reaching")(error)),
            // Rank 0 may start later.
            Err(_) => std::thread::park_timeout(RETRY),
        }
    };
    let own = stream.local_addr().map_err(failed("reading the address towards"))?;
    let listener = TcpListener::bind((own.ip(), 0)).map_err(failed("opening a port towards"))?;
    let port = listener.local_addr().map_err(failed("reading the port towards"))?.port();
    Greeting { rank, count, port }.write(&mut stream).map_err(failed("greeting"))?;
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left)).map_err(failed("preparing the connection to"))?;
    let message = read_reply(&mut stream).map_err(failed("reading the table of all ranks from"))?;
    let message = message.map_err(|text| status!(INVALID_ARGUMENT, "rank 0 has refused rank {rank}: {text}"))?;
    let (secret, entries) = message.split_at_checked(8).unwrap_or_default();
    let mut table: Vec<_> = entries.chunks_exact(ENTRY_BYTES).map(address_of).collect();
    let (Ok(secret), Some(first), true) =
        (secret.try_into(), table.first_mut(), entries.len() == count as usize * ENTRY_BYTES)
    else {
        return Err(status!(INTERNAL, "the store at {address} sent an invalid table"));
    };
    *first = SocketAddr::new(store.ip(), first.port());
    Ok(Joined { listener, table, secret: u64::from_le_bytes(secret), control: vec![(0, stream)] })
}

/// A number that other processes do not know.
fn secret() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// First message of a rank to the store.
struct Greeting {
    rank: u32,
    count: u32,
    port: u16,
}

impl Greeting {
    fn write(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rank.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..].copy_from_slice(&self.port.to_le_bytes());
        stream.write_all(&bytes)
    }

    fn read(stream: &mut TcpStream) -> std::io::Result<Self> {
        let mut bytes = [0; 18];
        stream.set_read_timeout(Some(GREETING))?;
        stream.read_exact(&mut bytes)?;
        if bytes[..8] != MAGIC.to_le_bytes() {
            return Err(ErrorKind::InvalidData.into());
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(Self { rank: word(8), count: word(12), port: u16::from_le_bytes([bytes[16], bytes[17]]) })
    }
}

/// Sends the table, or the reason for which there is none.
fn reply(stream: &mut TcpStream, message: std::result::Result<&[u8], &str>) -> std::io::Result<()> {
    let (is_error, bytes) = match message {
        Ok(bytes) => (0_u32, bytes),
        Err(text) => (1, text.as_bytes()),
    };
    stream.write_all(&[is_error.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat())?;
    stream.write_all(bytes)
}

fn read_reply(stream: &mut TcpStream) -> std::io::Result<std::result::Result<Vec<u8>, String>> {
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let mut bytes = Vec::new();
    stream.take(length.into()).read_to_end(&mut bytes)?;
    Ok(if head[0] == 0 { Ok(bytes) } else { Err(String::from_utf8_lossy(&bytes).into_owned()) })
}

fn entry(address: &SocketAddr) -> [u8; ENTRY_BYTES] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

fn address_of(entry: &[u8]) -> SocketAddr {
    let mut ip = [0; 16];
    ip.copy_from_slice(&entry[..16]);
    SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), u16::from_le_bytes([entry[16], entry[17]]))
}

/// A connection to another rank, once it is made.
type Sender = Arc<Mutex<Option<TcpStream>>>;

/// The transport of one rank.
struct Tcp {
    rank: u32,
    secret: u64,
    timeout: Duration,
    table: Vec<SocketAddr>,
    /// The connections to other ranks, made at the first frame.
    senders: Mutex<HashMap<u32, Sender>>,
    /// To the reader: closed, it ends.
    stop: Option<UnixStream>,
    control: Vec<TcpStream>,
    reader: Option<JoinHandle<()>>,
}

impl Tcp {
    fn start(joined: Joined, (rank, count): (u32, u32), timeout: Duration, mailbox: Arc<Mailbox>) -> Result<Self> {
        let Joined { listener, table, secret, control } = joined;
        let failed = |error: std::io::Error| unreachable("preparing", &"connections", &error);
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let mut ours = Vec::new();
        for (_, stream) in &control {
            stream.set_nonblocking(true).map_err(failed)?;
            ours.push(stream.try_clone().map_err(failed)?);
        }
        listener.set_nonblocking(true).map_err(failed)?;
        let reader = Reader { rank, count, secret, mailbox, listener, stopped, control, incoming: Vec::new() };
        let reader = thread::spawn("amdgpu_rs-tcp".to_owned(), move || reader.run())
            .map_err(|error| status!(RESOURCE_EXHAUSTED, "starting a thread for collectives: {error}"))?;
        let senders = Mutex::default();
        Ok(Self { rank, secret, timeout, table, senders, stop: Some(stop), control: ours, reader: Some(reader) })
    }

    /// Connects to `target`.
    fn connect(&self, target: u32) -> std::io::Result<TcpStream> {
        let address = self.table.get(target as usize).ok_or(ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(address, CONNECT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(self.timeout))?;
        stream.write_all(&hello(self.rank, self.secret).head())?;
        Ok(stream)
    }

    fn write(&self, target: u32, frame: &Frame) -> std::io::Result<()> {
        let sender = self.senders.lock().entry(target).or_default().clone();
        let mut sender = sender.lock();
        let stream = match &mut *sender {
            Some(stream) => stream,
            empty => empty.insert(self.connect(target)?),
        };
        if frame.payload.len() <= SMALL {
            return stream.write_all(&[frame.head().as_slice(), &frame.payload].concat());
        }
        stream.write_all(&frame.head())?;
        stream.write_all(&frame.payload)
    }
}

/// The frame in front of all others of a connection.
fn hello(rank: u32, secret: u64) -> Frame {
    let key = Key { lane: Lane::Collective, source: rank, context: secret, sequence: MAGIC, step: 0, part: 0 };
    Frame { key, payload: Vec::new() }
}

impl Transport for Tcp {
    fn send(&self, target: u32, frame: Frame) -> Result<()> {
        self.write(target, &frame).map_err(|error| unreachable("sending to rank", &target, &error))
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        let key = Key { lane: Lane::Leave, source: self.rank, context: 0, sequence: 0, step: 0, part: 0 };
        let leave = Frame { key, payload: Vec::new() }.head();
        for sender in self.senders.lock().values() {
            if let Some(stream) = &mut *sender.lock() {
                // A rank that is gone need not know.
                let _ = stream.write_all(&leave).and_then(|()| stream.shutdown(Shutdown::Write));
            }
        }
        for stream in &mut self.control {
            let _ = stream.write_all(&[LEAVE]);
        }
        drop(self.stop.take());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// The thread that reads the connections of a rank.
struct Reader {
    rank: u32,
    count: u32,
    secret: u64,
    mailbox: Arc<Mailbox>,
    listener: TcpListener,
    stopped: UnixStream,
    control: Vec<(u32, TcpStream)>,
    incoming: Vec<Incoming>,
}

/// A connection with frames of another rank.
struct Incoming {
    stream: TcpStream,
    /// The rank, once it has said so.
    source: Option<u32>,
    has_left: bool,
    head: [u8; HEAD_BYTES],
    /// The frame whose payload is being read.
    key: Option<Key>,
    payload: Vec<u8>,
    /// Bytes read of head or payload.
    filled: usize,
}

fn poll_of(file: &impl AsRawFd) -> libc::pollfd {
    libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until one of `files` can be read, or was closed. False after `timeout`, and after a signal.
fn wait(files: &mut [libc::pollfd], timeout: Option<Duration>) -> std::io::Result<bool> {
    let timeout = timeout.map_or(-1, |timeout| i32::try_from(timeout.as_millis() + 1).unwrap_or(i32::MAX));
    // SAFETY: the array lives during the call.
    match unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, timeout) } {
        -1 => {
            let error = std::io::Error::last_os_error();
            if error.kind() == ErrorKind::Interrupted { Ok(false) } else { Err(error) }
        }
        ready => Ok(ready > 0),
    }
}

impl Reader {
    fn run(mut self) {
        loop {
            let mut files = vec![poll_of(&self.stopped), poll_of(&self.listener)];
            files.extend(self.control.iter().map(|(_, stream)| poll_of(stream)));
            files.extend(self.incoming.iter().map(|incoming| poll_of(&incoming.stream)));
            match wait(&mut files, None) {
                Ok(true) => (),
                Ok(false) => continue,
                Err(error) => return self.mailbox.fail(unreachable("waiting at", &"connections", &error)),
            }
            let is_ready = |index: usize| files.get(index).is_some_and(|file| file.revents != 0);
            if is_ready(0) {
                return;
            }
            let (first, control) = (2, self.control.len());
            // New connections come behind those that were polled.
            let mut index = first + control;
            self.incoming.retain_mut(|incoming| {
                index += 1;
                !is_ready(index - 1) || incoming.read(self.count, self.secret, &self.mailbox)
            });
            for index in (0..control).rev().filter(|index| is_ready(first + index)) {
                self.read_control(index);
            }
            if is_ready(1) {
                while let Ok((stream, _)) = self.listener.accept() {
                    if stream.set_nonblocking(true).is_ok() {
                        self.incoming.push(Incoming::new(stream));
                    }
                }
            }
        }
    }

    /// Reads messages of the store, or of a rank at the store.
    fn read_control(&mut self, index: usize) {
        let (rank, stream) = &mut self.control[index];
        let rank = *rank;
        let mut byte = [0];
        match stream.read(&mut byte) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
            Ok(1) if byte[0] == LEAVE => drop(self.control.remove(index)),
            Ok(1) if byte[0] == DEAD => {
                let mut dead = [0; 4];
                // Sent in one piece.
                if stream.read_exact(&mut dead).is_ok() {
                    self.mailbox.lose(u32::from_le_bytes(dead), died(u32::from_le_bytes(dead)));
                }
            }
            _ => {
                self.control.remove(index);
                self.mailbox.lose(rank, died(rank));
                if self.rank == 0 {
                    let message = [[DEAD].as_slice(), &rank.to_le_bytes()].concat();
                    for (_, other) in &mut self.control {
                        let _ = other.write_all(&message);
                    }
                }
            }
        }
    }
}

fn died(rank: u32) -> Status {
    status!(UNAVAILABLE, "rank {rank} of the collectives has died: its connection was closed")
}

impl Incoming {
    fn new(stream: TcpStream) -> Self {
        let (head, payload) = ([0; HEAD_BYTES], Vec::new());
        Self { stream, source: None, has_left: false, head, key: None, payload, filled: 0 }
    }

    /// Reads all available bytes. False when the connection is over.
    fn read(&mut self, count: u32, secret: u64, mailbox: &Mailbox) -> bool {
        loop {
            let target = if self.key.is_some() { self.payload.as_mut_slice() } else { self.head.as_mut_slice() };
            if self.filled == target.len() {
                if !self.take(count, secret, mailbox) {
                    return false;
                }
                continue;
            }
            match self.stream.read(&mut target[self.filled..]) {
                Ok(0) => break,
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => break,
            }
        }
        if let Some(rank) = self.source.filter(|_| !self.has_left) {
            mailbox.lose(rank, died(rank));
        }
        false
    }

    /// Takes a complete head or payload. False for a connection that is no rank's.
    fn take(&mut self, count: u32, secret: u64, mailbox: &Mailbox) -> bool {
        self.filled = 0;
        if let Some(key) = self.key.take() {
            self.has_left |= key.lane == Lane::Leave;
            arrive(mailbox, key, std::mem::take(&mut self.payload));
            return true;
        }
        let Some((key, length)) = Frame::read_head(&self.head) else { return false };
        match self.source {
            None => {
                let is_rank = self.head == hello(key.source, secret).head() && key.source < count;
                self.source = is_rank.then_some(key.source);
                is_rank
            }
            Some(source) if source == key.source => {
                self.key = Some(key);
                self.payload = vec![0; length];
                true
            }
            Some(_) => false,
        }
    }
}
