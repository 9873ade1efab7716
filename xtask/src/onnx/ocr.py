# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PP-OCR around its networks: pictures to tensors, and tensors to boxes, turns and text.

    ocr.py detect FOLDER PICTURE WHEEL   unpacks the networks; makes FOLDER/detect, a call of the one that finds text
    ocr.py lines FOLDER PICTURE          takes what it found; makes FOLDER/turn_N and read_N, calls of those that look at a line
    ocr.py read FOLDER PICTURE           takes what they found; prints a line for each box; writes FOLDER/picture.png

A call is a folder with test.json, as import_tests.py makes it; the GPU's results are expected in its folder gpu.
"""

import json
import sys
import zipfile
from pathlib import Path

import numpy
import onnx
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

from common import import_for_compiler, save, session, shaped

MODELS = {
    "detect.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "turn.onnx": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "read.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}
# Maximum pixels of a side of a picture; the height of lines, and their two widths.
LONGEST_SIDE = 640
LINE_HEIGHT = 48
LINE_WIDTHS = [320, 640]
TURN_WIDTH = 192
# PP-OCR's post-processing: the thresholds of text, of a box and of a turned line, and the distance by which edges are
# moved out.
TEXT_THRESHOLD = 0.3
BOX_THRESHOLD = 0.5
UNCLIP_RATIO = 1.6
TURN_THRESHOLD = 0.9


def tensor(picture):
    """A picture as input of PP-OCR's networks: planes of blue, green, red from -1 to 1."""
    pixels = numpy.asarray(picture.convert("RGB"), numpy.float32)[:, :, ::-1]
    return numpy.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1))[None]


def detection_size(picture):
    """The size to which a picture is scaled: sides are multiples of 32."""
    scale = min(1, LONGEST_SIDE / max(picture.size))
    return tuple(max(32, round(side * scale / 32) * 32) for side in picture.size)


def detection_input(picture):
    return tensor(picture.resize(detection_size(picture), Image.BILINEAR))


def line_input(line, widths):
    """A line of text, scaled to the networks' height, at the left of the narrowest tensor that it fits in."""
    width = min(max(1, round(line.width * LINE_HEIGHT / line.height)), widths[-1])
    wide = next(w for w in widths if w >= width)
    padded = numpy.zeros((1, 3, LINE_HEIGHT, wide), numpy.float32)
    padded[..., :width] = tensor(line.resize((width, LINE_HEIGHT), Image.BILINEAR))
    return padded


def boxes(probabilities, size):
    """The boxes of text, (left, top, right, bottom) in a picture of `size`, in reading order."""
    mask = ndimage.binary_dilation(probabilities > TEXT_THRESHOLD, numpy.ones((2, 2)))
    labels, _ = ndimage.label(mask, numpy.ones((3, 3)))
    scale = numpy.array([size[0] / mask.shape[1], size[1] / mask.shape[0]] * 2)
    found = []
    for rows, columns in ndimage.find_objects(labels):
        width, height = columns.stop - columns.start, rows.stop - rows.start
        if min(width, height) < 3 or probabilities[rows, columns].mean() < BOX_THRESHOLD:
            continue
        # The network was trained with boxes that are smaller by this.
        out = width * height * UNCLIP_RATIO / (2 * (width + height))
        box = numpy.array([columns.start - out, rows.start - out, columns.stop + out, rows.stop + out]) * scale
        box = numpy.clip(box.round().astype(int), 0, [size[0], size[1]] * 2)
        found.append(tuple(int(side) for side in box))
    return sorted(found, key=lambda box: (box[1] + box[3], box[0]))


def text_of(scores, alphabet):
    """The text of a line's scores (the best of each step, without repetitions and blanks), and its confidence."""
    best = scores.argmax(1)
    kept = [step for step, index in enumerate(best) if index != 0 and (step == 0 or index != best[step - 1])]
    sure = float(numpy.mean([scores[step, best[step]] for step in kept])) if kept else 0.0
    return "".join(alphabet[best[step]] for step in kept), sure


def alphabet_of(model):
    """The characters of the classes of the reading network: a blank, the characters that the model names, a space."""
    properties = {entry.key: entry.value for entry in model.metadata_props}
    return ["", *properties["character"].splitlines(), " "]


def make_call(model, array, folder):
    """A call of a network with one input, and onnxruntime's results."""
    folder.mkdir(parents=True, exist_ok=True)
    name = onnx.load(model).graph.input[0].name
    network = shaped(model.read_bytes(), {name: array})
    # Calls with the same shape share a compiled module.
    mlir = folder.parent / f"{model.stem}_{'x'.join(map(str, array.shape))}.mlir"
    function = mlir.with_suffix(".name")
    if not function.exists():
        function.write_text(import_for_compiler(network, mlir))
    way = {"mlir": f"../{mlir.name}", "function": function.read_text(), "inputs": [save(folder, "input_0", array, None)]}
    outputs = [save(folder, f"output_{index}", result, None) for index, result in enumerate(session(network).run(None, {name: array}))]
    (folder / "test.json").write_text(json.dumps({"ways": [way], "outputs": outputs}))


def results_of(call):
    """Results of the GPU."""
    return numpy.load(call / "gpu" / "output_0.npy")


def detect(folder, picture, wheel):
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as files:
        for name, path in MODELS.items():
            (folder / name).write_bytes(files.read(path))
    make_call(folder / "detect.onnx", detection_input(picture), folder / "detect")


def lines(folder, picture):
    found = boxes(results_of(folder / "detect")[0, 0], picture.size)
    for index, box in enumerate(found):
        line = picture.crop(box)
        make_call(folder / "turn.onnx", line_input(line, [TURN_WIDTH]), folder / f"turn_{index}")
        make_call(folder / "read.onnx", line_input(line, LINE_WIDTHS), folder / f"read_{index}")
    (folder / "boxes.json").write_text(json.dumps(found))


def read(folder, picture):
    alphabet = alphabet_of(onnx.load(folder / "read.onnx"))
    found = json.loads((folder / "boxes.json").read_text())
    shown = Image.new("RGB", (picture.width * 2, picture.height), "white")
    shown.paste(picture, (0, 0))
    draw = ImageDraw.Draw(shown)
    same = 0
    for index, box in enumerate(found):
        call = folder / f"read_{index}"
        text, sure = text_of(results_of(call)[0], alphabet)
        same += text == text_of(numpy.load(call / "output_0.npy")[0], alphabet)[0]
        is_turned = results_of(folder / f"turn_{index}")[0, 1] > TURN_THRESHOLD
        print(f"{box[0]:5} {box[1]:5} {box[2]:5} {box[3]:6}   {sure:4.0%}   {text}{'  (upside down)' if is_turned else ''}")
        left, top, right, bottom = box
        draw.rectangle(box, outline=(220, 30, 30), width=2)
        left, right = left + picture.width, right + picture.width
        draw.rectangle((left, top, right, bottom), outline=(190, 190, 190))
        font = ImageFont.load_default(size=max(8, (bottom - top) * 0.6))
        draw.text((left + 3, (top + bottom) / 2), text, font=font, fill=(20, 20, 20), anchor="lm")
    shown.save(folder / "picture.png")
    print(f"\nonnxruntime           reads {same} of {len(found)} lines the same")


def main(what, folder, picture, *more):
    {"detect": detect, "lines": lines, "read": read}[what](Path(folder), Image.open(picture).convert("RGB"), *more)


if __name__ == "__main__":
    main(*sys.argv[1:])
