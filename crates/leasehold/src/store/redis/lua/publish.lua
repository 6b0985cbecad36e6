-- Keeps a listing. The same id is the same content, so the first one stays. Own arguments: 1 pool, 2 id, 3 content.
redis.call('HSETNX', prefix .. ':' .. arg(1) .. ':registry:listings', arg(2), arg(3))
return answer('done')
