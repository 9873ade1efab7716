# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prepares the networks of models/onnx.toml: networks.py PROJECT WHEELS FOLDER [GLOB]

Each network gets FOLDER/NAME with its inputs, onnxruntime's results, the model and test.json, as import_tests.py makes them.
Only those are prepared whose names match GLOB.
"""

import fnmatch
import json
import sys
import tomllib
import wave
import zipfile
from pathlib import Path

import numpy
from PIL import Image

import ocr
from common import import_for_compiler, save, session, shaped


def file(path, _):
    """Magika's view of a file: its first and last 1,024 bytes, blanks stripped, 256 where there are none."""
    data = path.read_bytes()
    ends = [list(data[:4096].lstrip()[:1024]), list(data[-4096:].rstrip()[-1024:])]
    first, last = (ends[0] + [256] * 1024)[:1024], ([256] * 1024 + ends[1])[-1024:]
    return {"bytes": numpy.array([first + last], numpy.int32)}


def speech(path, _):
    """Silero's view of speech: pieces of 512 samples with the 64 before; the state of an LSTM, at first 0."""
    with wave.open(str(path)) as sound:
        assert (sound.getframerate(), sound.getsampwidth(), sound.getnchannels()) == (16000, 2, 1)
        samples = numpy.frombuffer(sound.readframes(sound.getnframes()), numpy.int16) / numpy.float32(32768)
    samples = numpy.concatenate([numpy.zeros(64, numpy.float32), samples])
    pieces = [samples[start : start + 576] for start in range(0, len(samples) - 575, 512)]
    state = numpy.zeros((1, 1, 128), numpy.float32)
    return {"input": numpy.stack(pieces), "h": state, "c": state}


def text(path, _):
    return {"x": ocr.detection_input(Image.open(path))}


def line(path, network):
    return {"x": ocr.line_input(Image.open(path).crop(network["crop"]), ocr.LINE_WIDTHS)}


def turned_line(path, network):
    turned = Image.open(path).crop(network["crop"]).transpose(Image.ROTATE_180)
    return {"x": ocr.line_input(turned, [ocr.TURN_WIDTH])}


def photograph(path, _):
    """CenterFace's view of a picture: planes of red, green, blue from 0 to 255."""
    pixels = numpy.asarray(Image.open(path).convert("RGB"), numpy.float32)
    return {"input.1": numpy.ascontiguousarray(pixels.transpose(2, 0, 1))[None]}


INPUTS = {made.__name__: made for made in [file, speech, text, line, turned_line, photograph]}


def prepare(network, project, wheels, folder):
    name, version = network["package"].replace("-", "_").split("==")
    (wheel,) = wheels.glob(f"{name}-{version}-*.whl")
    arrays = INPUTS[network["input"]](project / network["sample"], network)
    model = shaped(zipfile.ZipFile(wheel).read(network["file"]), arrays)
    results = session(model).run(None, arrays)
    folder.mkdir(parents=True, exist_ok=True)
    function = import_for_compiler(model, folder / "model.mlir")
    inputs = [save(folder, f"input_{index}", array, None) for index, array in enumerate(arrays.values())]
    outputs = [save(folder, f"output_{index}", array, None) for index, array in enumerate(results)]
    test = {"ways": [{"mlir": "model.mlir", "function": function, "inputs": inputs}], "outputs": outputs}
    (folder / "test.json").write_text(json.dumps(test))


def main(project, wheels, folder, glob="*"):
    networks = tomllib.loads((project / "models/onnx.toml").read_text())["network"]
    networks = [network for network in networks if fnmatch.fnmatchcase(network["name"], glob)]
    for done, network in enumerate(networks):
        print(f"[{done}/{len(networks)}] {network['name']}", flush=True)
        if not (folder / network["name"] / "test.json").exists():
            prepare(network, project, wheels, folder / network["name"])


main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
