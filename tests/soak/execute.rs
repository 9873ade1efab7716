// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Runs a program on the driver, with its threads, and compares.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use amdgpu_rs::ffi::{Code, Result, SemaphoreRef, Status, raw, status};

use crate::hal::{self, Device, File, Turn};
use crate::heap;
use crate::model::{self, Bytes, Model, noise};
use crate::program::{Fate, Heap, Kind, OpId, Place, Points, Program, Span, Touch};
use crate::report::{Progress, fail};
use crate::support::recording::{Recording, direct, indirect};
use crate::support::{BufferRef, Rig, map_read, wait};

/// Status of a host call that fails.
const CALL_CODE: Code = Code::PERMISSION_DENIED;

/// A buffer as far as it is there.
enum Slot {
    /// Made by the first that needs it; one of the queues' by its alloca.
    Missing,
    Here(BufferRef),
    /// The call that was to make it failed.
    Refused(Status),
    /// The program has let go of it.
    Gone,
}

struct Runner<'a> {
    program: &'a Program,
    points: Vec<Points>,
    model: Model,
    progress: &'a Progress,
    semaphores: Vec<SemaphoreRef>,
    devices: Vec<Mutex<Option<Arc<Device>>>>,
    buffers: Mutex<Buffers>,
    /// A buffer came, or a device is used less.
    changed: Condvar,
    recordings: Mutex<BTreeMap<usize, Arc<Recording>>>,
    files: Mutex<Vec<Option<File>>>,
    /// The buffers of host calls that are queued.
    calls: Mutex<BTreeMap<OpId, Vec<BufferRef>>>,
    checked: AtomicU64,
}

struct Buffers {
    slots: Vec<Slot>,
    /// Operations that will use each.
    uses: Vec<usize>,
    /// Operations that will be submitted to each device.
    submissions: Vec<usize>,
}

/// The address of the runner whose host calls may be made; 0 for none. When a device fails and all that it was to
/// signal has failed, a call that had begun goes on, and keeps the device, and so may those behind it in line.
static CALLABLE: RwLock<usize> = RwLock::new(0);

fn set_callable(runner: usize) {
    *CALLABLE.write().unwrap_or_else(PoisonError::into_inner) = runner;
}

/// Runs the program; how many bytes were compared. Ends the process if something is wrong.
pub fn run(program: &Program, kernels: &[u8], is_wrong: bool, progress: &Progress) -> u64 {
    let devices: Vec<_> = (0..program.devices).map(|_| Mutex::new(Some(Arc::new(open(program, kernels))))).collect();
    let semaphores = program.timelines.iter().map(|device| {
        let device = lock(&devices[*device]).clone().expect("a device that was made");
        device.rig.try_semaphore().unwrap_or_else(|status| fail(&format!("making a semaphore: {status}")))
    });
    let mut uses = vec![0; program.buffers.len()];
    let mut submissions = vec![0; program.devices];
    for op in &program.ops {
        op.buffers(program).iter().for_each(|buffer| uses[*buffer] += 1);
        submissions[op.device] += usize::from(!matches!(op.kind, Kind::Release));
    }
    let slots = uses.iter().map(|_| Slot::Missing).collect();
    let runner = Runner {
        program,
        points: program.points(),
        model: Model::of(program, is_wrong),
        progress,
        semaphores: semaphores.collect(),
        devices,
        buffers: Mutex::new(Buffers { slots, uses, submissions }),
        changed: Condvar::new(),
        recordings: Mutex::default(),
        files: Mutex::new(program.files.iter().map(|_| None).collect()),
        calls: Mutex::default(),
        checked: AtomicU64::new(0),
    };
    set_callable((&raw const runner).addr());
    runner.run_threads();
    runner.check_ends();
    // A host call may go on whose semaphore another operation has failed: waits for its end, and none begins any more.
    set_callable(0);
    runner.check_memory();
    runner.end();
    let checked = runner.checked.load(Ordering::Relaxed);
    drop(runner);
    if !program.ops.iter().any(|op| matches!(op.kind, Kind::MemoryFault { .. })) {
        // The GPU goes on: nothing has met a fault unseen, while its device ended.
        drop(open(program, kernels));
    }
    heap::expect_none();
    checked
}

fn open(program: &Program, kernels: &[u8]) -> Device {
    let options: Vec<_> = program.options.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let made = Rig::open_with(heap::allocator(), "", &options).and_then(|rig| {
        let kernels = rig.executable(kernels)?;
        Ok(Device { sessions: Mutex::default(), rig, kernels })
    });
    made.unwrap_or_else(|status| fail(&format!("making a device: {status}")))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner<'_> {
    fn run_threads(&self) {
        let order = self.program.order();
        std::thread::scope(|scope| {
            for thread in 0..self.program.threads {
                let own: Vec<_> = order.iter().filter(|index| self.program.ops[**index].thread == thread).collect();
                scope.spawn(move || {
                    for index in own {
                        self.progress
                            .doing(thread, || crate::describe::line(&self.program.ops[*index], &self.points[*index]));
                        self.perform(*index);
                        self.let_go(*index);
                    }
                    self.progress.doing(thread, || "done".to_owned());
                });
            }
        });
    }

    /// A list of points for one call.
    fn list<'b>(&'b self, points: &[(usize, u64)]) -> Vec<(&'b SemaphoreRef, u64)> {
        points.iter().map(|(timeline, value)| (&self.semaphores[*timeline], *value)).collect()
    }

    /// Does or submits the operation.
    fn perform(&self, index: usize) {
        let op = &self.program.ops[index];
        if !op.is_on_host() {
            if let Err(status) = self.submit(index) {
                self.expect_failure(index, &status, "the call");
                self.fail_signals(index, &status);
            }
            return;
        }
        let waited =
            self.list(&self.points[index].waits).into_iter().try_for_each(|(semaphore, value)| wait(semaphore, value));
        match (&op.kind, waited) {
            (Kind::FailHost, Ok(())) => self.fail_signals(index, &status!(ABORTED, "cancelled by the program")),
            (_, Err(status)) => {
                self.expect_failure(index, &status, "the wait");
                self.fail_signals(index, &status);
            }
            (Kind::Host(touch), Ok(())) => {
                self.expect_run(index);
                if let Err(status) = self.touch(op.id, touch, |buffer| self.buffer(buffer)) {
                    fail(&format!("{}: mapping: {status}", self.line(index)));
                }
                self.signal(index);
            }
            (Kind::Session { is_kept }, Ok(())) => {
                self.expect_run(index);
                if let Err(status) = self.device(op.device).make_session(*is_kept) {
                    fail(&format!("{}: {status}", self.line(index)));
                }
                self.signal(index);
            }
            (Kind::Release, Ok(())) => {
                self.release(op.device);
                self.signal(index);
            }
            _ => unreachable!("the host does nothing else"),
        }
    }

    fn line(&self, index: usize) -> String {
        crate::describe::line(&self.program.ops[index], &self.points[index])
    }

    fn signal(&self, index: usize) {
        for (semaphore, value) in self.list(&self.points[index].signals) {
            if let Err(status) = semaphore.borrow().signal(value) {
                self.expect_failure(index, &status, "signaling");
            }
        }
    }

    fn fail_signals(&self, index: usize, status: &Status) {
        for (semaphore, _) in self.list(&self.points[index].signals) {
            semaphore.borrow().fail(status.clone());
        }
    }

    /// Checks that the operation may run.
    fn expect_run(&self, index: usize) {
        if let Fate::Doomed(source) = self.program.ops[index].fate
            && source != self.program.ops[index].id
        {
            fail(&format!("{}: it ran although {source} failed", self.line(index)));
        }
    }

    /// Checks that the operation may fail like this.
    fn expect_failure(&self, index: usize, status: &Status, what: &str) {
        let fate = self.program.ops[index].fate;
        let mut codes: Vec<_> = match fate.source().map(|source| &self.program.ops[self.program.index(source)].kind) {
            Some(Kind::FailHost) => vec![Code::ABORTED],
            Some(Kind::FailCall) => vec![CALL_CODE],
            _ => Vec::new(),
        };
        if fate != Fate::Certain {
            let ends = self.program.ops.iter().filter_map(|op| match op.kind {
                Kind::Trap { .. } | Kind::MemoryFault { .. } => Some(Code::DATA_LOSS),
                Kind::Release => Some(Code::CANCELLED),
                _ => None,
            });
            codes.extend(ends);
        }
        if !codes.contains(&status.code()) {
            fail(&format!("{}: {what} failed, expected one of {codes:?}: {status}", self.line(index)));
        }
    }

    fn device(&self, device: usize) -> Arc<Device> {
        lock(&self.devices[device]).clone().expect("it is not released before its last submission")
    }

    fn buffer(&self, index: usize) -> Result<BufferRef> {
        let mut buffers = lock(&self.buffers);
        loop {
            match &buffers.slots[index] {
                Slot::Here(buffer) => return Ok(buffer.clone()),
                Slot::Refused(status) => return Err(status.clone()),
                Slot::Gone => return Err(status!(INTERNAL, "b{index} is gone")),
                Slot::Missing => {}
            }
            let description = &self.program.buffers[index];
            if description.heap == Heap::Queue {
                buffers = self.changed.wait(buffers).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let device = self.device(description.device);
            let made = hal::buffer(&device.rig, description.heap, description.size).and_then(|buffer| {
                if description.heap.is_mappable() {
                    hal::map_write(&buffer, 0, &noise(model::initial(index), description.size))?;
                }
                Ok(buffer)
            });
            buffers.slots[index] = made.map_or_else(Slot::Refused, Slot::Here);
        }
    }

    fn part(&self, span: Span) -> Result<hal::Part> {
        Ok((self.buffer(span.buffer)?, span.offset, span.length))
    }

    fn submit(&self, index: usize) -> Result<()> {
        let (op, points) = (&self.program.ops[index], &self.points[index]);
        let (waits, signals) = (self.list(&points.waits), self.list(&points.signals));
        let turn = Turn { affinity: op.affinity, waits: &waits, signals: &signals };
        let device = self.device(op.device);
        let rig = &device.rig;
        match &op.kind {
            Kind::Barrier => rig.barrier(op.affinity, &waits, &signals),
            Kind::Work(work) => {
                let (mut spans, target) = work.places();
                spans.push(target);
                let parts = spans.iter().map(|span| self.part(*span)).collect::<Result<Vec<_>>>()?;
                let part = |span: Span| parts[spans.iter().position(|other| *other == span).expect("its own")].clone();
                hal::submit(&device, &turn, &work.map(part))
            }
            Kind::Execute { recording, bindings } => {
                let recording = self.recording(&device, *recording)?;
                let parts = bindings.iter().map(|span| self.part(*span)).collect::<Result<Vec<_>>>()?;
                let table: Vec<_> = parts.iter().map(|(buffer, offset, length)| (buffer, *offset, *length)).collect();
                recording.execute(rig, op.affinity, &waits, &signals, &table)
            }
            Kind::Alloca { buffer } => {
                let made = rig.alloca(op.affinity, &waits, &signals, self.program.buffers[*buffer].size);
                let (slot, result) = match made {
                    Ok(buffer) => (Slot::Here(buffer), Ok(())),
                    Err(status) => (Slot::Refused(status.clone()), Err(status)),
                };
                lock(&self.buffers).slots[*buffer] = slot;
                self.changed.notify_all();
                result
            }
            Kind::Dealloca { buffer } => rig.dealloca(op.affinity, &waits, &signals, &self.buffer(*buffer)?),
            Kind::Read { file, file_offset, target } => {
                let (file, target) = (self.file(&device, *file)?, self.part(*target)?);
                hal::read(&device, &turn, (&file, *file_offset), &target)
            }
            Kind::Write { source, file, file_offset } => {
                let (file, source) = (self.file(&device, *file)?, self.part(*source)?);
                hal::write(&device, &turn, &source, (&file, *file_offset))
            }
            Kind::Call { .. } | Kind::FailCall => {
                let list = op.buffers(self.program);
                let buffers = list.iter().map(|buffer| self.buffer(*buffer)).collect::<Result<Vec<_>>>()?;
                lock(&self.calls).insert(op.id, buffers);
                let runner: *const Self = self;
                hal::host_call(&device, &turn, called, runner.cast_mut().cast(), index as u64)
            }
            Kind::Trap { target } => hal::submit_fault(&device, &turn, "trap", &self.buffer(target.buffer)?),
            Kind::MemoryFault { target } => hal::submit_fault(&device, &turn, "write_at", &self.buffer(target.buffer)?),
            Kind::Host(_) | Kind::FailHost | Kind::Session { .. } | Kind::Release => {
                unreachable!("the host does these")
            }
        }
    }

    fn recording(&self, device: &Device, index: usize) -> Result<Arc<Recording>> {
        let mut recordings = lock(&self.recordings);
        if let Some(recording) = recordings.get(&index) {
            return Ok(recording.clone());
        }
        let description = &self.program.recordings[index];
        let spans = description.commands.iter().flat_map(|(_, work)| crate::memory_work::direct_spans(work));
        let held =
            spans.map(|span| Ok((span.buffer, self.buffer(span.buffer)?))).collect::<Result<BTreeMap<_, _>>>()?;
        let reference = |place| match place {
            Place::Direct(span) => direct(&held[&span.buffer], span.offset, span.length),
            Place::Slot { slot, offset, length } => indirect(slot as u32, offset, length),
        };
        let commands: Vec<_> = description.commands.iter().map(|(first, work)| (*first, work.map(reference))).collect();
        let (affinity, mode, slots) = (description.affinity, description.mode, description.slots.len());
        let made = Arc::new(hal::record(device, affinity, mode, slots, &commands)?);
        recordings.insert(index, made.clone());
        Ok(made)
    }

    fn file(&self, device: &Device, index: usize) -> Result<amdgpu_rs::ffi::HalRef<raw::iree_hal_file_t>> {
        let mut files = lock(&self.files);
        if files[index].is_none() {
            let description = &self.program.files[index];
            let bytes = noise(model::initial_of_file(index), description.size);
            files[index] = Some(File::new(&device.rig, description.kind, &bytes, heap::allocator())?);
        }
        let file = files[index].as_ref().and_then(|file| file.hal.clone());
        file.ok_or_else(|| status!(INTERNAL, "f{index} is gone"))
    }

    /// The operation is submitted or done: the program may let go of buffers.
    fn let_go(&self, index: usize) {
        let op = &self.program.ops[index];
        let mut released = Vec::new();
        let mut buffers = lock(&self.buffers);
        for buffer in op.buffers(self.program) {
            buffers.uses[buffer] -= 1;
            if buffers.uses[buffer] == 0 && self.program.buffers[buffer].is_ephemeral {
                released.push(std::mem::replace(&mut buffers.slots[buffer], Slot::Gone));
            }
        }
        if !matches!(op.kind, Kind::Release) {
            buffers.submissions[op.device] -= 1;
        }
        drop(buffers);
        self.changed.notify_all();
        drop(released);
    }

    /// Lets go of a device and all that is of it once nothing more is submitted to it.
    fn release(&self, device: usize) {
        let mut buffers = lock(&self.buffers);
        while buffers.submissions[device] > 0 {
            buffers = self.changed.wait(buffers).unwrap_or_else(PoisonError::into_inner);
        }
        let is_of_device = |index: usize| self.program.buffers[index].device == device;
        let slots = buffers.slots.iter_mut().enumerate().filter(|(index, _)| is_of_device(*index));
        let released: Vec<_> = slots.map(|(_, slot)| std::mem::replace(slot, Slot::Gone)).collect();
        drop(buffers);
        drop(released);
        lock(&self.recordings).retain(|index, _| self.program.recordings[*index].device != device);
        lock(&self.calls).retain(|id, _| self.program.ops[self.program.index(*id)].device != device);
        for (file, description) in lock(&self.files).iter_mut().zip(&self.program.files) {
            if let Some(file) = file.as_mut().filter(|_| description.device == device) {
                file.hal = None;
            }
        }
        let last = lock(&self.devices[device]).take();
        drop(last);
    }

    /// Reads, compares and writes mapped memory.
    fn touch(&self, id: OpId, touch: &Touch, buffer: impl Fn(usize) -> Result<BufferRef>) -> Result<()> {
        for (span, expected) in touch.reads.iter().zip(self.model.seen.get(&id).into_iter().flatten()) {
            let bytes = map_read(&buffer(span.buffer)?, span.offset, span.length)?;
            self.compare(&format!("operation {id} reads {span}"), &bytes, expected);
        }
        for (span, seed) in &touch.writes {
            hal::map_write(&buffer(span.buffer)?, span.offset, &noise(*seed, span.length))?;
        }
        Ok(())
    }

    fn compare(&self, what: &str, found: &[u8], expected: &Bytes) {
        let known = expected.iter().filter(|byte| byte.is_some()).count();
        self.checked.fetch_add(known as u64, Ordering::Relaxed);
        let differs = |index: &usize| expected[*index].is_some_and(|byte| byte != found[*index]);
        let Some(first) = (0..expected.len()).find(differs) else { return };
        let count = (0..expected.len()).filter(differs).count();
        let end = (first + 16).min(found.len());
        let shown: Vec<_> = expected[first..end]
            .iter()
            .map(|byte| byte.map_or("..".to_owned(), |byte| format!("{byte:02x}")))
            .collect();
        fail(&format!(
            "{what}: {count} bytes differ, the first at {first}: found {:02x?}, expected [{}]",
            &found[first..end],
            shown.join(", ")
        ));
    }

    /// The function of host call `index`.
    fn call(&self, index: usize, context: &raw::iree_hal_host_call_context_t) -> Result<()> {
        let op = &self.program.ops[index];
        self.expect_run(index);
        self.progress.tick();
        let Kind::Call { touch, is_deferred } = &op.kind else {
            return Err(status!(PERMISSION_DENIED, "the call fails on purpose"));
        };
        // None for a device that is being released.
        let Some(held) = lock(&self.calls).remove(&op.id) else { return Ok(()) };
        let names = op.buffers(self.program);
        let buffer = |index| Ok(held[names.iter().position(|name| *name == index).expect("its own")].clone());
        self.touch(op.id, touch, buffer)?;
        if !is_deferred {
            return Ok(());
        }
        let list = context.signal_semaphore_list;
        for position in 0..list.count {
            // SAFETY: the driver's list is valid during the call; the program owns the semaphores.
            let (semaphore, value) = unsafe { (*list.semaphores.add(position), *list.payload_values.add(position)) };
            // SAFETY: the program owns the semaphore.
            unsafe { amdgpu_rs::ffi::iree!(raw::iree_hal_semaphore_signal(semaphore, value, std::ptr::null())) }?;
        }
        Err(Status::from_code(Code::DEFERRED))
    }

    /// Each operation has the end that it must have.
    fn check_ends(&self) {
        for (index, op) in self.program.ops.iter().enumerate() {
            for (semaphore, value) in self.list(&self.points[index].signals) {
                self.progress.doing(0, || format!("waits for the end of {}", self.line(index)));
                match (wait(semaphore, value), op.fate) {
                    (Ok(()), Fate::Doomed(_)) => fail(&format!("{}: it succeeded", self.line(index))),
                    (Ok(()), Fate::Certain | Fate::Maybe(_)) => {}
                    (Err(status), _) => self.expect_failure(index, &status, "it"),
                }
            }
        }
    }

    /// Compares all readable memory with the model.
    fn check_memory(&self) {
        let ended = |device: usize| {
            let ends = self.program.ops.iter().filter(|op| op.ends_device());
            ends.clone().any(|op| op.device == device || matches!(op.kind, Kind::MemoryFault { .. }))
        };
        for (index, buffer) in self.program.buffers.iter().enumerate() {
            let Slot::Here(held) = &lock(&self.buffers).slots[index] else { continue };
            let held = held.clone();
            if buffer.heap == Heap::Queue {
                continue;
            }
            self.progress.doing(0, || format!("looks at b{index}"));
            let bytes = if buffer.heap.is_mappable() {
                map_read(&held, 0, buffer.size)
            } else if ended(buffer.device) {
                continue;
            } else {
                self.fetch(&self.device(buffer.device).rig, &held, buffer.size)
            };
            let bytes = bytes.unwrap_or_else(|status| fail(&format!("looking at b{index} in the end: {status}")));
            self.compare(&format!("b{index} in the end"), &bytes, &self.model.buffers[index]);
        }
    }

    fn fetch(&self, rig: &Rig, buffer: &BufferRef, size: usize) -> Result<Vec<u8>> {
        let (staging, done) = (hal::buffer(rig, Heap::Host, size)?, rig.try_semaphore()?);
        rig.copy(1, &[], &[(&done, 1)], (buffer, 0), (&staging, 0), size)?;
        wait(&done, 1)?;
        map_read(&staging, 0, size)
    }

    /// Ends the devices, then compares the files' contents, whose memory lives longer.
    fn end(&self) {
        lock(&self.buffers).slots.clear();
        lock(&self.recordings).clear();
        lock(&self.calls).clear();
        lock(&self.files).iter_mut().flatten().for_each(|file| file.hal = None);
        self.progress.doing(0, || "releases the devices".to_owned());
        for device in &self.devices {
            let last = lock(device).take();
            drop(last);
        }
        for (index, file) in lock(&self.files).iter().enumerate() {
            if let Some(file) = file {
                let found = file.contents(self.program.files[index].size);
                self.compare(&format!("f{index} in the end"), &found, &self.model.files[index]);
            }
        }
    }
}

unsafe extern "C" fn called(
    user_data: *mut c_void,
    arguments: *const u64,
    context: *mut raw::iree_hal_host_call_context_t,
) -> raw::iree_status_t {
    let callable = CALLABLE.read().unwrap_or_else(PoisonError::into_inner);
    if *callable != user_data.addr() {
        return std::ptr::null_mut();
    }
    // SAFETY: `submit` gave a runner, which is there as long as it is callable, and the driver gives valid arguments.
    let (runner, index, context) = unsafe { (&*user_data.cast::<Runner<'_>>(), *arguments as usize, &*context) };
    amdgpu_rs::ffi::status::into_raw(runner.call(index, context))
}
