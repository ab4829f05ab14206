// PRIVATE: the headers that most tests include, read once for all of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled.h"
