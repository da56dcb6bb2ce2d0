# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/images/pillow.safetensors: a small image after each operation of Pillow that src/images repeats.

    apt-get install python3-pil python3-numpy
    python3 tools/golden/pillow.py tests/golden/images/pillow.safetensors

The tensors are bytes (height, width, 3). "image" is the input of all others.
"""

import json
import struct
import sys

import numpy
import PIL
from PIL import Image, ImageEnhance, ImageOps

HEIGHT, WIDTH = 17, 20
FILL = (124, 116, 104)
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def picture():
    """Smooth colours with noise and a hard edge; no channel reaches both 0 and 255."""
    random = numpy.random.default_rng(5)
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    channels = [9 * x + 3 * y + 10, 220 - 7 * y - 4 * x, 60 + (x - 9) ** 2 + 5 * (y % 4)]
    noise = random.integers(-12, 13, (HEIGHT, WIDTH, 3))
    pixels = numpy.stack(channels, -1) + noise
    pixels[4:9, 12:17] = (250, 30, 200)
    return Image.fromarray(numpy.clip(pixels, 5, 252).astype(numpy.uint8))


def cases(image):
    for name, resample in FILTERS.items():
        for height, width in ((9, 11), (40, 33), (17, 8)):
            yield f"resize_{name}_{height}x{width}", image.resize((width, height), resample)
        # Rows 3..12 and columns 2..14, as random crops are cut out.
        yield f"crop_{name}", image.crop((2, 3, 15, 13)).resize((12, 12), resample)
        arguments = {"resample": resample, "fillcolor": FILL}

        def affine(*matrix):
            return image.transform(image.size, Image.Transform.AFFINE, matrix, **arguments)

        yield f"rotate_{name}", image.rotate(27.0, **arguments)
        yield f"rotate_back_{name}", image.rotate(-13.5, **arguments)
        yield f"shear_x_{name}", affine(1, 0.27, 0, 0, 1, 0)
        yield f"shear_y_{name}", affine(1, 0, 0, -0.11, 1, 0)
        yield f"translate_x_{name}", affine(1, 0, 0.32 * WIDTH, 0, 1, 0)
        yield f"translate_y_{name}", affine(1, 0, 0, 0, 1, -0.3 * HEIGHT)
    yield "autocontrast", ImageOps.autocontrast(image)
    yield "equalize", ImageOps.equalize(image)
    yield "invert", ImageOps.invert(image)
    for bits in (0, 1, 3):
        yield f"posterize_{bits}", ImageOps.posterize(image, bits)
    yield "solarize", ImageOps.solarize(image, 26)
    # Not in Pillow: timm maps values below 128 to min(255, i + 99) with this call.
    yield "solarize_add", image.point([min(255, i + 99) if i < 128 else i for i in range(256)] * 3)
    for factor in (0.19, 1.81):
        yield f"colour_{factor}", ImageEnhance.Color(image).enhance(factor)
        yield f"contrast_{factor}", ImageEnhance.Contrast(image).enhance(factor)
        yield f"brightness_{factor}", ImageEnhance.Brightness(image).enhance(factor)
        yield f"sharpness_{factor}", ImageEnhance.Sharpness(image).enhance(factor)


def main(path):
    image = picture()
    header = {"__metadata__": {"source": "tools/golden/pillow.py", "pillow": PIL.__version__}}
    data = b""
    for name, result in [("image", image), *cases(image)]:
        pixels = numpy.asarray(result)
        header[name] = {"dtype": "U8", "shape": list(pixels.shape),
                        "data_offsets": [len(data), len(data) + pixels.size]}
        data += pixels.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


main(sys.argv[1])
