// SPDX-License-Identifier: Apache-2.0
#include "data/documents.h"
