// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The debugger of `check-kernel`, with commands as users give them, and messages as editors send them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

/// `tests/compiled/debug.c` for gfx1100, with debug information.
fn in_place() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/debug.c");
    let object = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("debug.{}.co", std::process::id()));
    if !object.exists() {
        let partial = object.with_extension(format!("{:?}", std::thread::current().id()));
        let output = Command::new("clang-22")
            .args(["-x", "c", "-std=c23", "-nogpulib", "-fuse-ld=lld-22", "-target", "amdgcn-amd-amdhsa"])
            .args(["-mcpu=gfx1100", "-O1", "-g", "-o"])
            .args([&partial, &source])
            .output()
            .expect("starting clang-22, of Debian's package clang-22");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(partial, &object).unwrap();
    }
    object
}

/// Arguments of a launch of `in_place` in one workgroup of two waves.
const LAUNCH: &str = "in_place --grid 1 --block 64 --arg buffer:256=iota-u32 --dump 0:u32";

/// The first line of its results.
const RESULT: &str = "0: 126 124 122 120 118 116 114 112\n";

/// Runs the program with these commands on standard input. Returns the exit code, standard output and standard error.
fn run(file: &Path, arguments: &str, commands: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_check-kernel"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HSA_")) {
        command.env_remove(name);
    }
    let mut child = command
        .arg(file)
        .args(arguments.split_whitespace())
        .arg("--debug")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Dropped: the end of the commands.
    child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The text between a command and the next one.
#[track_caller]
fn after<'a>(told: &'a str, command: &str) -> &'a str {
    let (_, rest) = told.split_once(&format!("(sim) {command}\n")).unwrap_or_else(|| panic!("{command}: {told}"));
    rest.split("(sim) ").next().unwrap_or_default()
}

#[test]
fn a_line_stops_its_waves_and_registers_have_values() {
    let commands = "break 13\ninfo breakpoints\nrun\nprint/u $v0\nprint $exec\nlane 5\ninfo registers v0\nwave 1\n\
                    info waves\ndelete\ncontinue\n";
    let (code, out, told) = run(&in_place(), LAUNCH, commands);
    assert_eq!(code, 0, "{told}");
    assert!(out.contains(RESULT), "{out}");
    assert!(told.contains("The first kernel begins, kernel in_place, workgroup (0, 0, 0), wave 0\n"), "{told}");
    assert!(after(&told, "break 13").contains("Breakpoint 1: line 13, +0x"), "{told}");
    assert!(after(&told, "run").contains("Breakpoint 1, kernel in_place, workgroup (0, 0, 0), wave 0\ndebug.c:13\t"));
    assert!(after(&told, "run").contains("shared[i] = doubled(y[i]);\n=> 0x"), "{told}");
    assert_eq!(after(&told, "print $exec"), "$exec = 0xffffffff\n");
    assert!(after(&told, "print/u $v0").contains("lanes  8-15:   8   9  10  11  12  13  14  15"), "{told}");
    assert!(after(&told, "info registers v0").starts_with("v0     0x5          5 "), "{told}");
    assert!(after(&told, "info waves").contains("* wave 1: lanes 0xffffffff, +0x"), "{told}");
}

/// Memory and LDS are as before, and instructions that ran twice have their effects once.
#[test]
fn a_workgroup_goes_back_in_time() {
    // Wave 1 stores last: wave 0 has ended.
    let commands = "tbreak 17 wave=0\nrun\nx/1uw lds:0x24\nnext 100\nstepi\nx/1uw lds:0x18\nbreak 13 wave=1\nrc\n\
                    info waves\nx/1uw lds:0x14\nx/2uw lds:0x90\ndelete\nrc\nx/1uw lds:0x1c\nrsi\nstepi\nrsi\nc\n";
    let (code, out, told) = run(&in_place(), LAUNCH, commands);
    assert_eq!(code, 0, "{told}");
    assert!(out.contains(RESULT), "{out}");
    // The instructions of the line begin before those of the store to LDS.
    assert_eq!(after(&told, "x/1uw lds:0x24"), "lds:0x24:  0\n", "{told}");
    assert!(after(&told, "next 100").starts_with("Wave 0 has ended, kernel in_place, workgroup (0, 0, 0), wave 1"));
    assert!(after(&told, "rc").starts_with("Breakpoint 2, kernel in_place, workgroup (0, 0, 0), wave 1\n"), "{told}");
    assert!(after(&told, "info waves").contains("  wave 0: at a barrier, "), "{told}");
    assert_eq!(after(&told, "x/1uw lds:0x14"), "lds:0x14:  10\n", "{told}");
    assert_eq!(after(&told, "x/2uw lds:0x90"), "lds:0x90:  0  0\n", "{told}");
    assert!(told.contains("(sim) rc\nBeginning of the kept history, kernel in_place"), "{told}");
    assert_eq!(after(&told, "x/1uw lds:0x1c"), "lds:0x1c:  0\n");
    assert!(after(&told, "rsi").contains("error: this is the earliest state that is kept"), "{told}");
    assert!(told.contains("nothing found by all"), "{told}");
}

#[test]
fn steps_go_by_instruction_by_line_and_over_calls() {
    let commands = "tbreak 13\nrun\nnext\nreverse-step\ntbreak 8 wave=1\nc\nstepi\nreverse-stepi\nwave 0\nstepi\n\
                    where\n\
                    stepi 1000000\nc\n";
    let (code, out, told) = run(&in_place(), LAUNCH, commands);
    assert_eq!(code, 0, "{told}");
    assert!(out.contains(RESULT), "{out}");
    let pc = |text: &str| {
        let pc = text.split("=> ").nth(1).and_then(|rest| rest.split(' ').next());
        pc.unwrap_or_default().to_owned()
    };
    assert!(!after(&told, "next").contains("debug.c:8"), "{told}");
    // Back into the function that was stepped over.
    assert!(after(&told, "reverse-step").contains("debug.c:8"), "{told}");
    assert_eq!(pc(after(&told, "c")), pc(after(&told, "reverse-stepi")), "{told}");
    assert_ne!(pc(after(&told, "stepi")), pc(after(&told, "c")), "{told}");
    assert!(after(&told, "where").contains("wave 0"), "{told}");
    assert!(after(&told, "stepi 1000000").contains("Wave 0 has ended"), "{told}");
}

/// Conditions, findings, and kernels without the wait of `tests/kernels/order.s`.
#[test]
fn findings_and_conditions_stop() {
    let order = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/order.gfx942.co");
    let arguments = "copy --grid 1 --block 64 --arg buffer:256=iota-u32 --arg buffer:256=zero";
    let commands = "break finding\nrun\nlist\nbreak copy if $v0[3] == 4\nbreak copy if $v0[3] == 3\nc\n";
    let (code, _, told) = run(&order, arguments, commands);
    assert_eq!(code, 1, "{told}");
    assert!(after(&told, "run").contains("Finding: wait: kernel copy: v2 is read before"), "{told}");
    assert!(after(&told, "run").contains("ds_write_b32 v3, v2"), "{told}");
    assert!(told.contains("1 finding"), "{told}");
}

#[test]
fn wrong_commands_are_explained_and_quit_ends_the_kernel() {
    let wrong = [
        "frobnicate",
        "print",
        "print $q",
        "print $v999",
        "print/q $v0",
        "x",
        "x/4xw 0",
        "x/99999999xw 0",
        "wave 9",
        "lane 99",
        "break",
        "break :3",
        "delete 9",
        "workgroup x",
        "stepi x",
        "info x",
        "x/4xw lds:0xfffffffffffffff8",
        "stepi 0",
        "list x",
        "disassemble $",
        "print $v0[99]",
        "x/2xg scratch:0",
        "\u{1f600}",
    ];
    let (code, _, told) = run(&in_place(), LAUNCH, &format!("{}\nhelp\nquit\n", wrong.join("\n")));
    assert_eq!(code, 1, "{told}");
    for command in wrong {
        assert!(after(&told, command).starts_with("error: "), "{command}: {told}");
    }
    assert!(after(&told, "help").contains("reverse-stepi"), "{told}");
    assert!(told.contains("ended by the debugger"), "{told}");
}

/// A client of the Debug Adapter Protocol.
struct Client {
    input: BufReader<TcpStream>,
    output: TcpStream,
    sequence: u64,
}

impl Client {
    fn send(&mut self, mut request: Json) {
        self.sequence += 1;
        request["seq"] = self.sequence.into();
        request["type"] = "request".into();
        let body = request.to_string();
        write!(self.output, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    }

    fn receive(&mut self) -> Json {
        let mut header = String::new();
        self.input.read_line(&mut header).unwrap();
        let length = header.trim().strip_prefix("Content-Length: ").expect("a message").parse().unwrap();
        self.input.read_line(&mut header).unwrap();
        let mut body = vec![0; length];
        self.input.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

/// True if a message has all of `part`.
fn has(message: &Json, part: &Json) -> bool {
    match (message, part) {
        (Json::Object(all), Json::Object(part)) => {
            part.iter().all(|(key, part)| all.get(key).is_some_and(|value| has(value, part)))
        }
        (Json::Array(all), Json::Array(part)) => {
            all.len() >= part.len() && all.iter().zip(part).all(|(value, part)| has(value, part))
        }
        (Json::String(text), Json::String(part)) => match part.strip_prefix('~') {
            Some(part) => text.contains(part),
            None => text == part,
        },
        (value, part) => value == part,
    }
}

/// Plays a script of messages, after which the kernel goes on to its end.
fn play(script: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_check-kernel"))
        .arg(in_place())
        .args(LAUNCH.split_whitespace())
        .args(["--dap", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("hsa-sim: waits for a debugger (DAP) at ").expect("an address");
    let output = TcpStream::connect(address).unwrap();
    let mut client = Client { input: BufReader::new(output.try_clone().unwrap()), output, sequence: 0 };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/debug.c");
    let mut values = vec![("SOURCE".to_owned(), Json::from(source.to_str().unwrap()))];
    let mut last = Json::Null;
    for (number, line) in std::fs::read_to_string(script).unwrap().lines().enumerate() {
        let Some((kind, text)) = line.split_once(' ').filter(|(kind, _)| *kind != "#") else { continue };
        if kind == "=" {
            let (name, path) = text.split_once(' ').unwrap();
            let step = |value: Json, key: &str| match key.parse::<usize>() {
                Ok(index) => value[index].clone(),
                Err(_) => value[key].clone(),
            };
            values.push((name.to_owned(), path.split('.').fold(last.clone(), step)));
            continue;
        }
        let quoted =
            |text: String, (name, value): &(String, Json)| text.replace(&format!("\"${name}\""), &value.to_string());
        let message: Json = serde_json::from_str(&values.iter().fold(text.to_owned(), quoted)).unwrap();
        if kind == ">" {
            client.send(message);
            continue;
        }
        let mut others = Vec::new();
        loop {
            last = client.receive();
            if has(&last, &message) {
                break;
            }
            // An answer is the next one, and only events come between.
            assert_eq!(last["type"], "event", "line {}: {message} expected, came {last}", number + 1);
            others.push(last["event"].clone());
            assert!(others.len() < 5, "line {}: {message} expected, came {others:?}", number + 1);
        }
    }
    drop(client);
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(RESULT), "{output:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_editor_debugs_by_the_debug_adapter_protocol() {
    play("debugger.dap");
}

#[test]
fn an_editor_that_leaves_lets_the_kernel_go_on() {
    play("debugger_leaves.dap");
}
