"""Vectors of eight numbers for the compiler: their type, operators and functions; also prefetching and bit patterns."""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from common.numerics.kernels import WIDTH, njit

_tools: Any = cgutils
_primitive: Any = models.PrimitiveModel


class Lanes(types.Type):
    """The type of a vector in compiled code.

    Args:
        item: float32, float64, or an integer type.
    """

    def __init__(self, item: Any) -> None:
        self.item = item
        super().__init__(name=f"Lanes({item})")


@register_model(Lanes)
class _Model(_primitive):  # type: ignore[misc]  # the library has no types
    def __init__(self, manager: Any, kind: Any) -> None:
        item = manager.lookup(kind.item).get_value_type()
        super().__init__(manager, kind, ir.VectorType(item, WIDTH))


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    scalar = result.element if isinstance(result, ir.VectorType) else result
    ending = {"float": "f32", "double": "f64"}[str(scalar)]
    if isinstance(result, ir.VectorType):
        ending = f"v{WIDTH}{ending}"
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(_tools.get_or_insert_function(builder.module, kind, f"llvm.{name}.{ending}"), arguments)


def _spread(builder: Any, scalar: Any) -> Any:
    empty = ir.Constant(ir.VectorType(scalar.type, WIDTH), ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


def _cast(context: Any, builder: Any, value: Any, kind: Any, target: Any) -> Any:
    if isinstance(kind, Lanes) or not isinstance(target, Lanes):
        return value if kind == target else context.cast(builder, value, kind, target)
    return _spread(builder, context.cast(builder, value, kind, target.item))


def _common_type(arguments: Any) -> Any:
    kinds = {kind for kind in arguments if isinstance(kind, Lanes)}
    compatible = all(isinstance(kind, Lanes | types.Number) for kind in arguments)
    return kinds.pop() if len(kinds) == 1 and compatible else None


def _support(operation: Callable[[Any, Any], Any], of_floats: str, of_integers: str) -> None:
    def result(a: Any, b: Any) -> Any:
        return _common_type((a, b))

    typed: Any = type_callable
    typed(operation)(lambda context: result)

    def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
        target = kinds.return_type
        pair = [_cast(context, builder, value, kind, target) for value, kind in zip(arguments, kinds.args, strict=True)]
        name = of_floats if isinstance(target.item, types.Float) else of_integers
        return getattr(builder, name)(*pair)

    lowering: Any = lower_builtin
    for kinds in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lowering(operation, *kinds)(generate)


_support(operator.add, "fadd", "add")
_support(operator.sub, "fsub", "sub")
_support(operator.mul, "fmul", "mul")
_support(operator.and_, "", "and_")


def _elementwise(arity: int, emit: Callable[..., Any]) -> Any:
    def work(context: Any, *operands: Any) -> Any:
        target = _common_type(operands) or operands[0]
        if not isinstance(getattr(target, "item", target), types.Float):
            return None

        def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
            pairs = zip(arguments, kinds.args, strict=True)
            return emit(builder, *(_cast(context, builder, value, kind, target) for value, kind in pairs))

        return target(*operands), generate

    def unary(context: Any, a: Any) -> Any:
        return work(context, a)

    def binary(context: Any, a: Any, b: Any) -> Any:
        return work(context, a, b)

    def ternary(context: Any, a: Any, b: Any, c: Any) -> Any:
        return work(context, a, b, c)

    return intrinsic((unary, binary, ternary)[arity - 1])


def _math_call(name: str) -> Callable[..., Any]:
    return lambda builder, *values: _call(builder, name, values[0].type, *values)


def _select(comparison: str) -> Callable[..., Any]:
    return lambda builder, a, b: builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


fma = _elementwise(3, _math_call("fma"))
nearest = _elementwise(1, _math_call("rint"))
magnitude = _elementwise(1, _math_call("fabs"))
least = _elementwise(2, _select("<"))
greatest = _elementwise(2, _select(">"))


def _place(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    data = _tools.create_struct_proxy(kind)(context, builder, array).data
    return builder.gep(data, [place])


def _is_flat(array: Any, place: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and isinstance(place, types.Integer)


def _load(context: Any, array: Any, place: Any) -> Any:
    if not _is_flat(array, place):
        return None

    def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(array.dtype), WIDTH).as_pointer()
        address = builder.bitcast(_place(context, builder, array, *arguments), vector)
        return builder.load(address, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, place), generate


def _load_some(context: Any, array: Any, place: Any, count: Any) -> Any:
    if not (_is_flat(array, place) and isinstance(count, types.Integer)):
        return None

    def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
        values, begin, many = arguments
        item = context.get_data_type(array.dtype)
        vector, zero = ir.Constant(ir.VectorType(item, WIDTH), None), ir.Constant(item, None)
        for lane in range(WIDTH):
            inside = builder.icmp_signed(">", many, many.type(lane))
            index = builder.add(begin, builder.select(inside, begin.type(lane), begin.type(0)))
            value = builder.load(_place(context, builder, array, values, index))
            vector = builder.insert_element(vector, builder.select(inside, value, zero), ir.IntType(32)(lane))
        return vector

    return Lanes(array.dtype)(array, place, count), generate


def _store(context: Any, array: Any, place: Any, vector: Any) -> Any:
    if not (_is_flat(array, place) and vector == Lanes(array.dtype)):
        return None

    def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
        values, begin, numbers = arguments
        address = _place(context, builder, array, values, begin)
        address = builder.bitcast(address, numbers.type.as_pointer())
        builder.store(numbers, address, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, place, vector), generate


load: Any = intrinsic(_load)
load_some: Any = intrinsic(_load_some)
store: Any = intrinsic(_store)


def _prefetched(level: int) -> Any:
    def ask(context: Any, array: Any, place: Any) -> Any:
        if not _is_flat(array, place):
            return None

        def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            hint = _tools.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            read, locality, of_data = word(0), word(4 - level), word(1)
            item = builder.bitcast(_place(context, builder, array, *arguments), byte)
            builder.call(hint, [item, read, locality, of_data])
            return context.get_dummy_value()

        return types.void(array, place), generate

    return intrinsic(ask)


def _reinterpreted(target: Any, source: Any) -> Any:
    def convert(context: Any, number: Any) -> Any:
        if number != source:
            return None

        def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return intrinsic(convert)


prefetch, prefetch_near = _prefetched(1), _prefetched(2)
bits_of = _reinterpreted(types.int32, types.float32)
word_of, double_of = _reinterpreted(types.int64, types.float64), _reinterpreted(types.float64, types.int64)


def _total(context: Any, vector: Any) -> Any:
    if not isinstance(vector, Lanes):
        return None

    def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
        (numbers,) = arguments
        add = builder.fadd if isinstance(vector.item, types.Float) else builder.add
        index = ir.IntType(32)
        half = WIDTH // 2
        while half:
            kind = ir.VectorType(index, half)
            low = builder.shuffle_vector(numbers, numbers, ir.Constant(kind, list(range(half))))
            high = builder.shuffle_vector(numbers, numbers, ir.Constant(kind, list(range(half, 2 * half))))
            numbers = add(low, high)
            half //= 2
        return builder.extract_element(numbers, index(0))

    return vector.item(vector), generate


total: Any = intrinsic(_total)


def _convert(context: Any, builder: Any, value: Any, kind: Any, item: Any) -> Any:
    """Return a number, repeated in every lane, or a vector, as a vector of floating-point numbers of a type."""
    if not isinstance(kind, Lanes):
        return _spread(builder, context.cast(builder, value, kind, item))
    scalar, vector = kind.item, ir.VectorType(context.get_value_type(item), WIDTH)
    if scalar == item:
        return value
    if isinstance(scalar, types.Float):
        return (builder.fptrunc if scalar.bitwidth > item.bitwidth else builder.fpext)(value, vector)
    if scalar.bitwidth < 32:  # it fits into signed 32 bits, whose conversion is one instruction
        wide = ir.VectorType(ir.IntType(32), WIDTH)
        return builder.sitofp((builder.sext if scalar.signed else builder.zext)(value, wide), vector)
    return (builder.sitofp if scalar.signed else builder.uitofp)(value, vector)


def _convert_like(context: Any, source: Any, array: Any) -> Any:
    if not isinstance(array, types.Array) or not isinstance(source, types.Number | Lanes):
        return None

    def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
        return _convert(context, builder, arguments[0], source, array.dtype)

    return Lanes(array.dtype)(source, array), generate


def _converter(item: Any) -> Any:
    def declare(context: Any, source: Any) -> Any:
        if not isinstance(source, types.Number | Lanes):
            return None

        def generate(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
            return _convert(context, builder, arguments[0], source, item)

        return Lanes(item)(source), generate

    return intrinsic(declare)


singles = _converter(types.float32)
doubles = _converter(types.float64)
alike: Any = intrinsic(_convert_like)


@njit
def dot(a: Any, b: Any) -> Any:
    """Return <a, b> of two C-contiguous float64 vectors of one length; ``@`` would leave the order to a library."""
    aligned = len(a) // WIDTH * WIDTH
    sums = doubles(0.0)
    for j in range(0, aligned, WIDTH):
        sums = fma(load(a, j), load(b, j), sums)
    if aligned < len(a):
        sums = fma(load_some(a, aligned, len(a) - aligned), load_some(b, aligned, len(a) - aligned), sums)
    return total(sums)
