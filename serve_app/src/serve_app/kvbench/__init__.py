"""`serve_app kvbench`: how fast NIXL moves KV-like memory between two processes or nodes, over which transport, and
whether what arrived is what was sent.

    plan       what to measure: backends, operations, sizes, descriptors
    channel    the control connection between the two sides: JSON, one line a message
    agent      one NIXL agent with one backend;  memory: what it moves;  pattern: contents and digests
    target     the side that is read from or written to;  initiator: the side that does it and takes the time
    server     waits for initiators and starts a target for each;  run: starts initiators and gathers their rows
    wire       counters of the network;  transport: what was really used, said by the libraries and by the counters
    raw        the same link without NIXL: fi_rma_bw, iperf3
    report     table and JSON;  picture: PNG
"""
