# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs AMD GPU kernels on the CPU, on NumPy arrays, with checks.

A process has one device at a time: a call of `device` with other settings closes the one before.
"""

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from . import _native

__all__ = ["Array", "Device", "Fault", "Finding", "Kernel", "Local", "Run", "device", "kernels"]

#: Checks of devices that are made without `checks=`. The pytest plug-in sets it.
default_checks = "none"


class Fault(RuntimeError):
    """A kernel was stopped: by an access outside of its memory, an invalid instruction, a time limit.

    The device is closed; `device` makes another one.
    """


@dataclass(frozen=True)
class Finding:
    """A finding of a check, at a pair of instructions of a kernel."""

    check: str
    kernel: str
    #: The problem, in a sentence.
    what: str
    workgroup: tuple[int, int, int]
    wave: int
    #: Mask of the lanes concerned; 0 if they do not matter.
    lanes: int
    #: Instruction where the defect showed: `pc`, `offset`, `text`, and `source` where it is known.
    at: dict[str, Any]
    #: The other instruction, if there is one.
    other: dict[str, Any] | None
    #: `address` of the memory concerned, and `is`, its description.
    memory: dict[str, Any] | None = None

    def __str__(self) -> str:
        def line(of: dict[str, Any]) -> str:
            source = f"  ; {of['source']}" if "source" in of else ""
            return f"+{of['offset']:#x}  {of['text']}{source}"

        lines = [f"{self.check}: kernel {self.kernel}: {self.what}"]
        if self.memory and self.memory["is"]:
            lines.append(f"  {self.memory['address']:#x} is {self.memory['is']}")
        if self.other:
            lines += [f"    {line(self.other)}", "    ..."]
        lines.append(f"  > {line(self.at)}")
        lines.append(f"  workgroup {self.workgroup}, wave {self.wave}, lanes {self.lanes:#x}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Local:
    """LDS of this many bytes, for an argument that points to LDS."""

    size: int


@dataclass(frozen=True)
class Run:
    """A launch that has ended."""

    #: Findings that are new for this kernel at these instructions.
    findings: list[Finding] = field(default_factory=list)


class Array:
    """Memory of a device, with a shape and a type. It is freed with the object."""

    def __init__(self, device: "Device", shape: Any, dtype: Any, content: numpy.ndarray | None = None):
        self._device = device
        self.dtype = numpy.dtype(dtype)
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.nbytes = int(numpy.prod(self.shape, dtype=numpy.int64)) * self.dtype.itemsize
        content = None if content is None else content.tobytes()
        self.address = device._native.allocate(max(self.nbytes, 1), content)

    def numpy(self) -> numpy.ndarray:
        """A copy of the contents."""
        data = self._device._native.read(self.address, self.nbytes)
        return numpy.frombuffer(data, self.dtype).reshape(self.shape).copy()

    @property
    def uninitialized(self) -> list[tuple[int, int]]:
        """Bytes that nothing has written, as beginnings and ends. Empty without the check `init`."""
        return self._device._native.unwritten(self.address, self.nbytes)

    def __del__(self):
        try:
            self._device._native.free(self.address, self.nbytes)
        except Exception:  # The device is closed, or was never made.
            pass


class Device:
    """A GPU of the simulator; see `device`."""

    def __init__(self, target: str, checks: str, settings: dict[str, str]):
        self.target = target
        self.checks = checks
        #: All findings so far.
        self.findings: list[Finding] = []
        self._reported = None
        variables = {"HSA_SIM_AGENTS": target, "HSA_SIM_EXECUTE": "1", **settings}
        for name in ["HSA_SIM_CHECK", "HSA_SIM_CHECK_OUTPUT", "HSA_SIM_CHECK_FATAL"]:
            variables.setdefault(name, None)
        # A kernel that hangs does not block a script for ever.
        variables.setdefault("HSA_SIM_TIMEOUT", os.environ.get("HSA_SIM_TIMEOUT", "300"))
        if checks != "none":
            self._reported = tempfile.NamedTemporaryFile(prefix="amdgpu_sim", suffix=".json")
            variables |= {"HSA_SIM_CHECK": checks, "HSA_SIM_CHECK_OUTPUT": self._reported.name}
        before = {name: os.environ.get(name) for name in variables}
        try:
            _set(variables)
            self._native = _native.Device()
        finally:
            _set(before)

    def load(self, file: str | os.PathLike | bytes, name: str | None = None) -> "Kernel":
        """A kernel of a code object, an executable or a module; the only one if there is no `name`."""
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        if name is None:
            known = _native.kernels(data)
            names = sorted({name for name, target in known if target == self.target})
            if not names:
                others = sorted({str(target) for _, target in known})
                raise ValueError(f"the file has no kernel for {self.target}; it has kernels for {', '.join(others)}")
            if len(names) > 1:
                raise ValueError(f"the file has {len(names)} kernels for {self.target}; name one: {', '.join(names)}")
            name = names[0]
        return Kernel(self, _native.find(data, name, self.target))

    def array(self, content: Any) -> Array:
        """Memory with the contents of an array."""
        content = numpy.ascontiguousarray(content)
        return Array(self, content.shape, content.dtype, content)

    def empty(self, shape: Any, dtype: Any = numpy.float32) -> Array:
        """Uninitialized memory: with the check `init`, decisions that depend on it are findings."""
        return Array(self, shape, dtype)

    def close(self) -> None:
        """Ends the device. Its arrays and kernels cannot be used any more."""
        global _open
        if _open is self:
            _open = None
        self._native.close()

    def _new_findings(self) -> list[Finding]:
        if self._reported is None:
            return []
        lines = (json.loads(line) for line in self._reported.read().splitlines())
        names = Finding.__dataclass_fields__
        # Lines without `what` count repetitions.
        new = [
            Finding(**{name: line[name] for name in line if name in names} | {"workgroup": tuple(line["workgroup"])})
            for line in lines
            if "what" in line
        ]
        self.findings += new
        return new


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class Kernel:
    """A kernel of a device. `kernel[grid, block](…)` runs it."""

    def __init__(self, device: Device, native: Any):
        self.device = device
        self.name = native.name
        #: Name, bytes, kind (value, buffer, local) and type of each argument; empty where the code object lacks them.
        self.arguments = native.arguments
        self._native = native
        self._object = device._native.load(native)

    def __getitem__(self, shape: Any) -> "_Launch":
        """Chooses the number of workgroups, and of the work-items of each: numbers, or tuples of up to three."""
        grid, block = shape if isinstance(shape, tuple) and len(shape) == 2 else (None, None)
        if grid is None:
            raise TypeError("expected kernel[grid, block]")
        return _Launch(self, _three(grid), _three(block))


def _three(size: Any) -> list[int]:
    sizes = [int(size)] if not isinstance(size, (tuple, list)) else [int(one) for one in size]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ValueError(f"{size}: expected one to three positive numbers")
    return sizes + [1] * (3 - len(sizes))


@dataclass(frozen=True)
class _Launch:
    kernel: Kernel
    grid: list[int]
    block: list[int]

    def __call__(self, *arguments: Any, dynamic_lds: int = 0, stack: int | None = None) -> Run:
        """Runs the kernel and waits for it.

        Arguments are NumPy arrays, whose contents the kernel may change; `Array`s; `None` for a null pointer; numbers;
        `bytes`; and `Local`. A number of Python has the size of the kernel's argument; NumPy's have their own.

        Raises `Fault` if the kernel is stopped.
        """
        kernel, device = self.kernel, self.kernel.device
        wanted = kernel.arguments
        if len(arguments) != len(wanted):
            raise TypeError(f"{kernel.name} takes {len(wanted)} arguments, {len(arguments)} are given: {wanted}")
        given, copies = [], []
        for index, (value, argument) in enumerate(zip(arguments, wanted)):
            if isinstance(value, numpy.ndarray) and value.ndim > 0:
                same = next((array for other, array in copies if other is value), None)
                array = same or device.array(value)
                if same is None:
                    copies.append((value, array))
                given.append(array.address)
            elif isinstance(value, Array):
                given.append(value.address)
            elif isinstance(value, Local):
                given.append((value.size,))
            else:
                given.append(_value(value, index, argument))
        fault = device._native.launch(kernel._native, kernel._object, self.grid, self.block, dynamic_lds, stack, given)
        findings = device._new_findings()
        if fault is not None:
            # A GPU runs nothing more after a fault.
            device.close()
            raise Fault(fault)
        for value, array in copies:
            if value.flags.writeable:
                value[...] = array.numpy()
        return Run(findings)


def _value(value: Any, index: int, argument: tuple[str, int, str, str]) -> bytes:
    _, size, kind, of = argument
    if value is None:
        return bytes(size)
    if isinstance(value, (bytes, numpy.generic)):
        return value if isinstance(value, bytes) else value.tobytes()
    is_float = isinstance(value, float)
    if of in ("half", "float", "double"):
        is_float = True
    if kind == "value" and isinstance(value, (bool, int, float)):
        if is_float and size in (2, 4, 8):
            return numpy.dtype(f"<f{size}").type(value).tobytes()
        if not is_float:
            return int(value).to_bytes(size, "little", signed=value < 0)
    raise TypeError(f"argument {index} is {size} bytes, a {kind}, and {value!r} does not fit; NumPy's numbers are exact")


_open: Device | None = None


def device(
    target: str = "gfx942", checks: str | None = None, seed: int | None = None, threads: int | None = None
) -> Device:
    """The device of this process: a GPU of the simulator, such as gfx942 or gfx1100.

    `checks` is a list of wait, sync, race, equal, hazard, bounds, clamp, init, result; `all`; or `none`. `seed` delays
    some results of memory operations with the check wait. The same device is returned for the same settings.
    """
    global _open
    checks = default_checks if checks is None else checks
    settings = {}
    if seed is not None:
        settings["HSA_SIM_SEED"] = str(seed)
    if threads is not None:
        settings["HSA_SIM_THREADS"] = str(threads)
    key = (target, checks, settings)
    if _open is not None and _open._key == key:
        return _open
    if _open is not None:
        _open.close()
    made = Device(target, checks, settings)
    made._key = key
    _open = made
    return made


def kernels(file: str | os.PathLike | bytes) -> list[tuple[str, str | None]]:
    """Names of the kernels in a file, each with the GPU that runs it; `None` if the simulator has none."""
    return _native.kernels(file if isinstance(file, bytes) else Path(file).read_bytes())
