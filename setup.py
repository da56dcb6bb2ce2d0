# SPDX-License-Identifier: Apache-2.0
"""Builds libhydramix_torch.so with CMake, against the PyTorch of this Python, and puts it into the
package. HYDRAMIX_BUILD names a configured build folder to use in place of a new one."""

import os
import subprocess
from pathlib import Path

import torch
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        given = os.environ.get("HYDRAMIX_BUILD")
        build = Path(given) if given else ROOT / "build" / "pip"
        if not given:
            options = ["-DCMAKE_BUILD_TYPE=Release", "-DHYDRAMIX_BUILD_CLI=OFF",
                       "-DHYDRAMIX_BUILD_TESTS=OFF", "-DHYDRAMIX_BUILD_EXAMPLES=OFF"]
            # Debian's python3-torch uses Debian's LibTorch, which CMake finds by itself.
            if (Path(torch.utils.cmake_prefix_path) / "Torch").is_dir():
                options.append(f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}")
            if (ROOT / ".carry").is_dir():
                options.append(f"-DHYDRAMIX_DEPS={ROOT / '.carry'}")
            subprocess.check_call(["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja",
                                   *options])
        subprocess.check_call(["cmake", "--build", str(build), "--target", "hydramix_torch"])
        package = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        subprocess.check_call(["cmake", "--install", str(build), "--component", "python",
                               "--prefix", str(package)])


class Libraries(Extension):
    """No module of Python: the libraries that setup() puts into the package."""

    def __init__(self):
        super().__init__("hydramix.libraries", sources=[])


setup(ext_modules=[Libraries()], cmdclass={"build_ext": CMakeBuild})
