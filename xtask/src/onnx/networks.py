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
    """Magika's input for a file: its first and last 1,024 bytes, blanks stripped, 256 where there are none."""
    data = path.read_bytes()
    ends = [list(data[:4096].lstrip()[:1024]), list(data[-4096:].rstrip()[-1024:])]
    first, last = (ends[0] + [256] * 1024)[:1024], ([256] * 1024 + ends[1])[-1024:]
    return {"bytes": numpy.array([first + last], numpy.int32)}


def samples_of(path):
    """The samples of a sound of 16 kHz, from -1 to 1."""
    with wave.open(str(path)) as sound:
        assert (sound.getframerate(), sound.getsampwidth(), sound.getnchannels()) == (16000, 2, 1)
        return numpy.frombuffer(sound.readframes(sound.getnframes()), numpy.int16) / numpy.float32(32768)


def speech_pieces(path):
    """Pieces of 512 samples with the 64 before."""
    samples = numpy.concatenate([numpy.zeros(64, numpy.float32), samples_of(path)])
    return numpy.stack([samples[start : start + 576] for start in range(0, len(samples) - 575, 512)])


def speech(path, _):
    """Silero's input for speech: its pieces; the state of an LSTM, at first 0."""
    state = numpy.zeros((1, 1, 128), numpy.float32)
    return {"input": speech_pieces(path), "h": state, "c": state}


def speech_alone(path, _):
    return {"input": speech_pieces(path)}


def features(path, _):
    """Features as Silero's encoder gives them, and a state."""
    random = numpy.random.default_rng(1)
    state = random.uniform(-1, 1, (2, 1, 128)).astype(numpy.float32)
    return {"input": numpy.abs(random.normal(0, 1, (1, 128))).astype(numpy.float32), "state": state}


def spectrum(path, size, step, count):
    """Magnitudes of Fourier transforms of windows of speech: so many windows of `size` samples, `step` apart."""
    samples = numpy.resize(samples_of(path), size + step * (count - 1))
    windows = numpy.stack([samples[step * index :][:size] for index in range(count)]) * numpy.hanning(size)
    return numpy.abs(numpy.fft.rfft(windows))


def echo(path, _):
    """AECMOS's input for three sounds, one of them quieter and one late: logarithms of mel spectra; the state of GRUs."""
    mels = numpy.log10(spectrum(path, 512, 256, 60)[:, :160] ** 2 + 1e-7) / 4
    sounds = numpy.stack([mels, mels - 0.2, numpy.roll(mels, 3, 0)]).astype(numpy.float32)
    return {"input": sounds[None], "h0": numpy.zeros((4, 1, 64), numpy.float32)}


def melody(path, _):
    """Basic Pitch's input for a sound: 43,844 samples."""
    return {"serving_default_input_2:0": numpy.resize(samples_of(path), 43844)[None, :, None]}


def electrodes(path, _):
    """A spectrum as that of an EEG: 100 frequencies at 40 times."""
    return {"x": numpy.log(spectrum(path, 256, 128, 40)[:, :100].T + 1e-3).astype(numpy.float32)[None]}


def sleep(path, _):
    """30 s of an EEG, and its power in 15 bands."""
    signal = numpy.resize(samples_of(path), 7500)
    bands = spectrum(path, 128, 2, 7500)[:, 1:16].T
    return {"raw_signal": signal[None, None] * 4, "spectrogram": numpy.log(bands + 1e-3).astype(numpy.float32)[None]}


def name(path, _):
    """Letters of a name, as numbers."""
    return {"src": numpy.array([[2, 14, 9, 31, 20, 7, 12, 3]], numpy.int64), "src_mask": numpy.ones((1, 8), bool)}


def name_so_far(path, _):
    """Output of the decoder so far, and the encoder's result."""
    random = numpy.random.default_rng(1)
    memory = numpy.tanh(random.normal(0, 1, (1, 8, 256))).astype(numpy.float32)
    hidden = numpy.tanh(random.normal(0, 1, (1, 2, 256))).astype(numpy.float32)
    prefix = numpy.array([[2, 14, 30, 21]], numpy.int64)
    return {"prefix": prefix, "memory": memory, "src_mask": numpy.ones((1, 8), bool), "hidden": hidden}


def person(path, _):
    """A picture of 320 x 320: planes from 0 to 1."""
    picture = Image.open(path).convert("RGB").resize((320, 320))
    return {"images": numpy.ascontiguousarray(numpy.asarray(picture, numpy.float32).transpose(2, 0, 1))[None] / 255}


def text(path, _):
    return {"x": ocr.detection_input(Image.open(path))}


def line(path, network):
    return {"x": ocr.line_input(Image.open(path).crop(network["crop"]), ocr.LINE_WIDTHS)}


def turned_line(path, network):
    turned = Image.open(path).crop(network["crop"]).transpose(Image.ROTATE_180)
    return {"x": ocr.line_input(turned, [ocr.TURN_WIDTH])}


def photograph(path, _):
    """CenterFace's input for a picture: planes of red, green, blue from 0 to 255."""
    pixels = numpy.asarray(Image.open(path).convert("RGB"), numpy.float32)
    return {"input.1": numpy.ascontiguousarray(pixels.transpose(2, 0, 1))[None]}


MADE = [file, speech, speech_alone, features, echo, melody, electrodes, sleep, name, name_so_far, text, line]
INPUTS = {made.__name__: made for made in [*MADE, turned_line, photograph, person]}


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
