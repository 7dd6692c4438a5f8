"""Rules of linux.resources that hold on every version of cgroups."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import BlockIO, Cpu, DeviceRule, Memory, Resources


def validate_resources(resources: Resources, where: str = "linux.resources") -> None:
    """Check the rules; ``where`` is the object's own path.  Raises ConfigError."""
    for index, rule in enumerate(resources.get("devices", [])):
        _rule(rule, f"{where}.devices[{index}]")
    _memory(resources.get("memory", {}), f"{where}.memory")
    _cpu(resources.get("cpu", {}), f"{where}.cpu")
    _block_io(resources.get("blockIO", {}), f"{where}.blockIO")
    for index, limit in enumerate(resources.get("hugepageLimits", [])):
        size = limit["pageSize"]
        if not _is_page_size(size):
            message = f'"{size}" is not a page size'
            hint = 'such as "64KB", "2MB" or "1GB"'
            raise ConfigError(f"{where}.hugepageLimits[{index}].pageSize", message, hint)
    for device, limits in resources.get("rdma", {}).items():
        if "hcaHandles" not in limits and "hcaObjects" not in limits:  # LNX-RDMA-01
            message = "needs hcaHandles or hcaObjects"
            raise ConfigError(f'{where}.rdma["{device}"]', message)
    for file in resources.get("unified", {}):
        if "/" in file or file in (".", ".."):  # LNX-UNI-04
            raise ConfigError(f'{where}.unified["{file}"]', "is not the name of a cgroup file")


def _rule(rule: DeviceRule, where: str) -> None:
    access = rule.get("access", "rwm")
    if not access or set(access) - set("rwm"):  # LNX-DEVCG-04
        raise ConfigError(f"{where}.access", f'must be of the letters r, w and m, got "{access}"')


def _memory(memory: Memory, where: str) -> None:
    for name in ("limit", "reservation", "swap", "kernel", "kernelTCP"):
        size = memory.get(name)
        if isinstance(size, int) and size < -1:
            raise ConfigError(f"{where}.{name}", f"must be -1 (no limit) or more, got {size}")
    limit, swap = memory.get("limit", -1), memory.get("swap", -1)
    if 0 < swap < limit:
        message = f"{swap} is below the limit {limit}"
        raise ConfigError(f"{where}.swap", message, "it counts memory and swap together")


def _cpu(cpu: Cpu, where: str) -> None:
    quota, burst = cpu.get("quota", -1), cpu.get("burst", 0)
    if 0 < quota < burst:  # LNX-CPU-02, -03
        raise ConfigError(f"{where}.burst", f"{burst} is above the quota {quota}")
    if "cpus" in cpu or "mems" in cpu:
        from ociruntime.runtime.spec.cpu_list import check_list

        check_list(f"{where}.cpus", cpu.get("cpus", ""))
        check_list(f"{where}.mems", cpu.get("mems", ""))


def _block_io(block: BlockIO, where: str) -> None:
    for index, device in enumerate(block.get("weightDevice", [])):
        if "weight" not in device and "leafWeight" not in device:  # LNX-BLKIO-03
            raise ConfigError(f"{where}.weightDevice[{index}]", "needs weight or leafWeight")


def _is_page_size(text: str) -> bool:
    number, unit = text[:-2], text[-2:]
    return number.isascii() and number.isdigit() and number[0] != "0" and unit in ("KB", "MB", "GB")
