-- The content of a listing. Own arguments: 1 pool, 2 id.
return answer('done', redis.call('HGET', prefix .. ':' .. arg(1) .. ':registry:listings', arg(2)))
